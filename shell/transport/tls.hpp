// SPDX-License-Identifier: Apache-2.0
//
// TLS 1.3 between two ends that know the same secret (RFC 8446, external pre-shared key; the key exchange is fresh
// for each connection). There are no certificates, tickets or early data. It works on bytes: the caller owns the
// socket.
#pragma once

#include "transport/secret.hpp"

struct ssl_st;
struct ssl_ctx_st;
struct bio_st;

namespace nacre::transport {

class OpenSsl;

enum class Role { dials, listens };

class TlsContext : Noncopyable {
 public:
  static constexpr std::size_t kMaxJobId = 128;  // bytes; it is the identity of the key in RFC 8446
  // After this many bytes the key is changed: 2^35 is a tenth of what AES-GCM allows (RFC 8446, 5.5).
  static constexpr std::uint64_t kRekeyAfter = std::uint64_t{1} << 35;

  static Result<std::unique_ptr<TlsContext>> create(std::string job_id, const Secret& secret,
                                                    std::uint64_t rekey_after = kRekeyAfter);
  ~TlsContext();

 private:
  friend class Tls;
  struct Callbacks;  // OpenSSL's
  TlsContext(std::string job_id, Secret secret, std::uint64_t rekey_after);
  [[nodiscard]] bool configure();

  std::unique_ptr<OpenSsl> ssl_;
  std::string job_id_;
  Secret secret_;
  std::uint64_t rekey_after_;
  ssl_ctx_st* context_ = nullptr;
};

// One connection. Its context has to outlive it.
class Tls : Noncopyable {
 public:
  static Result<std::unique_ptr<Tls>> create(TlsContext& context, Role role);
  ~Tls();

  // Takes one TLS record from the socket. The caller reads its bytes before it gives the next one: memory for more
  // would never be freed.
  void receive(std::string_view bytes);
  static constexpr std::size_t kRecord = std::size_t{16} << 10;  // bytes that one record carries
  // Continues the handshake. True: the other end has proved that it knows the secret. There may be output after an
  // error too.
  Result<bool> handshake();
  // At most `most` bytes that the other end has sent. 0: none for now.
  Result<std::size_t> read(char* out, std::size_t most);
  [[nodiscard]] bool at_end() const { return at_end_; }          // the other end has closed as TLS demands
  Result<void> write(std::string_view bytes, std::string& out);  // appends the output to `out`
  void take_output(std::string& out);                            // appends what TLS itself has to send

 private:
  friend struct TlsContext::Callbacks;
  Tls(TlsContext& context, Role role) : context_(context), role_(role) {}
  [[nodiscard]] Error why() const;
  [[nodiscard]] std::string reason_for_people() const;

  TlsContext& context_;
  Role role_;
  ssl_st* ssl_ = nullptr;
  bio_st* in_ = nullptr;  // both belong to ssl_
  bio_st* out_ = nullptr;
  std::string other_job_;  // the first one that the other end named and that is not this job
  bool knows_job_ = false;
  bool at_end_ = false;
  std::uint64_t written_ = 0;  // bytes sent with the current key
};

}  // namespace nacre::transport
