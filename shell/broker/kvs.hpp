// SPDX-License-Identifier: Apache-2.0
//
// The key-value store of a Flux instance, as far as a job's shells write to it: the operations of a commit (RFC
// 11), and eventlogs (RFC 18) that grow by commits.
#pragma once

#include "broker/broker.hpp"

namespace nacre::broker {

// Operations, for the array of commit().
[[nodiscard]] Json put_of(std::string_view key, std::string_view bytes);
[[nodiscard]] Json append_of(std::string_view key, std::string_view bytes);
[[nodiscard]] Json unlink_of(std::string_view key);
// The payload of kvs.commit.
[[nodiscard]] Json commit(std::string_view in_namespace, Json operations);
// The bytes of a value as kvs.lookup has it: {"ver": 1, "type": "val", "data": base64}.
Result<std::string> bytes_of(const Json& value);

// The eventlogs of one namespace that a shell writes. One commit is under way at a time, and the next one has all
// that has come meanwhile: so there are only as many commits as the broker can take.
class EventlogWriter : Noncopyable {
 public:
  static constexpr std::size_t kFull = std::size_t{4} << 20;    // bytes that wait: from here on is_full()
  static constexpr std::size_t kCommit = std::size_t{8} << 20;  // bytes of one commit, about

  struct Callbacks {
    std::function<void()> on_room;               // it is no longer full, or all is in the store
    std::function<void(const Error&)> on_error;  // once; what waits, and what comes later, is dropped
  };

  // `broker` has to outlive it.
  EventlogWriter(Broker& broker, std::string in_namespace) : broker_(broker), namespace_(std::move(in_namespace)) {}
  ~EventlogWriter();

  // Calls them as long as the returned object lives.
  using Listener = std::shared_ptr<const Callbacks>;
  [[nodiscard]] Listener notify(Callbacks callbacks);
  void append(const std::string& key, std::string_view bytes);  // whole lines
  [[nodiscard]] bool full() const { return waiting_ >= kFull; }
  [[nodiscard]] bool flushed() const { return failure_ || (waiting_ == 0 && !tag_); }
  // Waits until all is in the store, as long as that takes something every `patience` seconds. False: it has not
  // taken all.
  bool flush(double patience);
  [[nodiscard]] const std::optional<Error>& failure() const { return failure_; }
  // For a key: bytes that were appended, and those of them that are in the store.
  [[nodiscard]] std::uint64_t taken(const std::string& key) const;
  [[nodiscard]] std::uint64_t stored(const std::string& key) const;

 private:
  struct Log {
    std::string waiting;
    std::uint64_t taken = 0;
    std::uint64_t on_way = 0;  // bytes of the commit that is under way
    std::uint64_t stored = 0;
  };

  void send();
  void committed(const Result<Json>& answer);

  Broker& broker_;
  std::string namespace_;
  void tell(const std::function<void(const Callbacks&)>& what);

  std::vector<std::weak_ptr<const Callbacks>> listeners_;
  std::map<std::string, Log> logs_;
  std::size_t waiting_ = 0;           // bytes, of all
  std::optional<std::uint32_t> tag_;  // of the commit that is under way
  std::optional<Error> failure_;
};

// What a Flux instance keeps for its jobs besides eventlogs: the archives of flux-archive(1), and its content
// store, which has their content by its hash (Flux RFC 10). It has a connection of its own to the broker, so that a
// thread may wait for it.

// The bytes of a blobref, "sha1-HEX" or "sha256-HEX".
Result<std::string> hash_of(std::string_view blobref);

class ContentStore {
 public:
  static Result<ContentStore> connect(std::string_view uri);

  // The files of an archive, as file system objects (Flux RFC 37). None: there is no such archive.
  Result<std::optional<Json>> archive(const std::string& name);

  using Take = std::function<Result<void>(std::size_t index, std::string_view bytes)>;
  // Calls `take` with the content of each in their order, several being under way. It waits without a limit.
  // ECANCELED: `goes_on`, which may be empty, has returned false.
  Result<void> load(const std::vector<std::string>& blobrefs, const Take& take,
                    const std::function<bool()>& goes_on);

 private:
  explicit ContentStore(std::unique_ptr<Broker> broker) : broker_(std::move(broker)) {}

  std::unique_ptr<Broker> broker_;
};

}  // namespace nacre::broker
