// SPDX-License-Identifier: Apache-2.0
#include "transport/tls.hpp"

#include "base/text.hpp"
#include "transport/openssl.hpp"

namespace nacre::transport {
namespace {

// The protocol's name in the handshake (ALPN): its length, then the name. Another version of records has another
// name.
constexpr std::string_view kProtocol = "\x07nacre/1";
constexpr unsigned char kCipher[] = {0x13, 0x01};  // TLS_AES_128_GCM_SHA256, as on the wire

const unsigned char* unsigned_bytes(std::string_view text) {
  return reinterpret_cast<const unsigned char*>(text.data());
}

int int_size(std::size_t size) { return static_cast<int>(std::min<std::size_t>(size, INT_MAX)); }

}  // namespace

// ---- callbacks of OpenSSL ---------------------------------------------------------

struct TlsContext::Callbacks {
  static Tls& owner_of(const SSL* ssl) { return *static_cast<Tls*>(OpenSsl::owner_of(ssl)); }

  static SSL_SESSION* session(const TlsContext& context, SSL* ssl) {
    const OpenSsl& lib = *context.ssl_;
    SSL_SESSION* made = lib.SSL_SESSION_new();
    if (made == nullptr) return nullptr;
    const SSL_CIPHER* cipher = lib.SSL_CIPHER_find(ssl, kCipher);
    const auto& key = context.secret_.bytes();
    if (cipher != nullptr && lib.SSL_SESSION_set1_master_key(made, key.data(), key.size()) == 1 &&
        lib.SSL_SESSION_set_cipher(made, cipher) == 1 &&
        lib.SSL_SESSION_set_protocol_version(made, TLS1_3_VERSION) == 1) {
      return made;
    }
    lib.SSL_SESSION_free(made);
    return nullptr;
  }

  static int use(SSL* ssl, const EVP_MD* /*hash*/, const unsigned char** id, std::size_t* id_size,
                 SSL_SESSION** session_out) {
    Tls& tls = owner_of(ssl);
    *id = unsigned_bytes(tls.context_.job_id_);
    *id_size = tls.context_.job_id_.size();
    *session_out = session(tls.context_, ssl);
    return *session_out != nullptr ? 1 : 0;
  }

  static int find(SSL* ssl, const unsigned char* id, std::size_t id_size, SSL_SESSION** session_out) {
    Tls& tls = owner_of(ssl);
    std::string_view named(reinterpret_cast<const char*>(id), id_size);
    *session_out = nullptr;
    if (named != tls.context_.job_id_) {
      if (tls.other_job_.empty()) tls.other_job_ = named;
      return 1;
    }
    tls.knows_job_ = true;
    *session_out = session(tls.context_, ssl);
    return *session_out != nullptr ? 1 : 0;
  }

  static int choose_protocol(SSL* /*ssl*/, const unsigned char** out, unsigned char* out_size,
                             const unsigned char* offered, unsigned offered_size, void* /*argument*/) {
    std::string_view rest(reinterpret_cast<const char*>(offered), offered_size);
    while (!rest.empty()) {
      std::size_t size = static_cast<unsigned char>(rest[0]) + std::size_t{1};
      if (rest.substr(0, size) == kProtocol) {
        *out = unsigned_bytes(kProtocol) + 1;
        *out_size = static_cast<unsigned char>(kProtocol.size() - 1);
        return SSL_TLSEXT_ERR_OK;
      }
      rest.remove_prefix(std::min(size, rest.size()));
    }
    return SSL_TLSEXT_ERR_ALERT_FATAL;
  }
};

// ---- the context -----------------------------------------------------------------

TlsContext::TlsContext(std::string job_id, Secret secret, std::uint64_t rekey_after)
    : job_id_(std::move(job_id)), secret_(std::move(secret)), rekey_after_(rekey_after) {}

TlsContext::~TlsContext() {
  if (context_ != nullptr) ssl_->SSL_CTX_free(context_);
}

Result<std::unique_ptr<TlsContext>> TlsContext::create(std::string job_id, const Secret& secret,
                                                       std::uint64_t rekey_after) {
  if (job_id.empty() || job_id.size() > kMaxJobId) {
    return invalid(fmt::format("a job id of {} bytes; links need one of 1 to {}", job_id.size(), kMaxJobId));
  }
  std::unique_ptr<TlsContext> made(new TlsContext(std::move(job_id), secret.copy(), rekey_after));
  made->ssl_ = std::make_unique<OpenSsl>(TRY(OpenSsl::load()));
  made->context_ = made->ssl_->SSL_CTX_new(made->ssl_->TLS_method());
  if (made->context_ == nullptr || !made->configure())
    return invalid("libssl.so.3 cannot do TLS 1.3 as links need it");
  return made;
}

bool TlsContext::configure() {
  const OpenSsl& lib = *ssl_;
  SSL_CTX* context = context_;
  char groups[] = "X25519:P-256";
  bool done = lib.SSL_CTX_ctrl(context, SSL_CTRL_SET_MIN_PROTO_VERSION, TLS1_3_VERSION, nullptr) == 1 &&
              lib.SSL_CTX_ctrl(context, SSL_CTRL_SET_MAX_PROTO_VERSION, TLS1_3_VERSION, nullptr) == 1 &&
              lib.SSL_CTX_set_ciphersuites(context, "TLS_AES_128_GCM_SHA256") == 1 &&
              lib.SSL_CTX_ctrl(context, SSL_CTRL_SET_GROUPS_LIST, 0, groups) == 1 &&
              lib.SSL_CTX_set_num_tickets(context, 0) == 1 &&
              lib.SSL_CTX_set_alpn_protos(context, unsigned_bytes(kProtocol), kProtocol.size()) == 0;
  lib.SSL_CTX_ctrl(context, SSL_CTRL_SET_SESS_CACHE_MODE, SSL_SESS_CACHE_OFF, nullptr);
  lib.SSL_CTX_ctrl(context, SSL_CTRL_MODE,
                   SSL_MODE_RELEASE_BUFFERS | SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER,
                   nullptr);
  lib.SSL_CTX_set_options(context, SSL_OP_NO_TICKET | SSL_OP_NO_COMPRESSION | SSL_OP_NO_RENEGOTIATION);
  lib.SSL_CTX_clear_options(context, SSL_OP_ENABLE_MIDDLEBOX_COMPAT);
  lib.SSL_CTX_set_alpn_select_cb(context, Callbacks::choose_protocol, nullptr);
  lib.SSL_CTX_set_psk_use_session_callback(context, Callbacks::use);
  lib.SSL_CTX_set_psk_find_session_callback(context, Callbacks::find);
  return done;
}

// ---- a connection ----------------------------------------------------------------

Result<std::unique_ptr<Tls>> Tls::create(TlsContext& context, Role role) {
  const OpenSsl& lib = *context.ssl_;
  std::unique_ptr<Tls> tls(new Tls(context, role));
  tls->ssl_ = lib.SSL_new(context.context_);
  if (tls->ssl_ == nullptr) return Error{ENOMEM, "libssl.so.3 has no memory for a connection"};
  tls->in_ = lib.BIO_new(lib.BIO_s_mem());
  tls->out_ = lib.BIO_new(lib.BIO_s_mem());
  lib.SSL_set_bio(tls->ssl_, tls->in_, tls->out_);
  if (tls->in_ == nullptr || tls->out_ == nullptr || lib.SSL_set_ex_data(tls->ssl_, 0, tls.get()) != 1) {
    return Error{ENOMEM, "libssl.so.3 has no memory for a connection"};
  }
  // A peer that answers with a certificate in place of the secret is never trusted: no authority is known here.
  if (role == Role::dials) lib.SSL_set_verify(tls->ssl_, SSL_VERIFY_PEER, nullptr);
  role == Role::dials ? lib.SSL_set_connect_state(tls->ssl_) : lib.SSL_set_accept_state(tls->ssl_);
  return tls;
}

Tls::~Tls() {
  if (ssl_ != nullptr) context_.ssl_->SSL_free(ssl_);
}

void Tls::receive(std::string_view bytes) { context_.ssl_->BIO_write(in_, bytes.data(), int_size(bytes.size())); }

Result<bool> Tls::handshake() {
  const OpenSsl& lib = *context_.ssl_;
  lib.ERR_clear_error();
  int code = lib.SSL_do_handshake(ssl_);
  if (code != 1) {
    if (lib.SSL_get_error(ssl_, code) == SSL_ERROR_WANT_READ) return false;
    return why();
  }
  const unsigned char* protocol = nullptr;
  unsigned size = 0;
  lib.SSL_get0_alpn_selected(ssl_, &protocol, &size);
  if (lib.SSL_session_reused(ssl_) != 1) return Error{EACCES, "does not know the job's secret"};
  if (size + 1 != kProtocol.size()) return Error{EPROTO, "speaks TLS, but not nacre's protocol"};
  return true;
}

Result<std::size_t> Tls::read(char* out, std::size_t most) {
  const OpenSsl& lib = *context_.ssl_;
  lib.ERR_clear_error();
  int got = lib.SSL_read(ssl_, out, int_size(most));
  if (got > 0) return static_cast<std::size_t>(got);
  switch (lib.SSL_get_error(ssl_, got)) {
    case SSL_ERROR_WANT_READ: return 0;
    case SSL_ERROR_ZERO_RETURN: at_end_ = true; return 0;
    default: return why();
  }
}

Result<void> Tls::write(std::string_view bytes, std::string& out) {
  const OpenSsl& lib = *context_.ssl_;
  while (!bytes.empty()) {
    if (written_ >= context_.rekey_after_) {
      lib.SSL_key_update(ssl_, SSL_KEY_UPDATE_NOT_REQUESTED);
      written_ = 0;
    }
    lib.ERR_clear_error();
    int took = lib.SSL_write(ssl_, bytes.data(), int_size(std::min(bytes.size(), kRecord)));
    if (took <= 0) return why();
    bytes.remove_prefix(static_cast<std::size_t>(took));
    written_ += static_cast<std::uint64_t>(took);
    take_output(out);
  }
  return {};
}

void Tls::take_output(std::string& out) {
  const OpenSsl& lib = *context_.ssl_;
  auto waiting = static_cast<std::size_t>(lib.BIO_ctrl(out_, BIO_CTRL_PENDING, 0, nullptr));
  if (waiting == 0) return;
  std::size_t before = out.size();
  out.resize(before + waiting);
  int got = lib.BIO_read(out_, out.data() + before, int_size(waiting));
  out.resize(before + static_cast<std::size_t>(std::max(got, 0)));
}

// ---- errors as text ----------------------------------------------------------------

Error Tls::why() const { return Error{EACCES, reason_for_people()}; }

std::string Tls::reason_for_people() const {
  const OpenSsl& lib = *context_.ssl_;
  unsigned long error = lib.ERR_peek_error();
  if (role_ == Role::listens && !knows_job_ && !other_job_.empty()) {
    return fmt::format("is of another job, {}; this is {}", in_quotes(other_job_), in_quotes(context_.job_id_));
  }
  switch (ERR_GET_REASON(error)) {
    case SSL_R_BINDER_DOES_NOT_VERIFY:
    case SSL_R_SSLV3_ALERT_ILLEGAL_PARAMETER:
    case SSL_R_TLSV1_ALERT_DECRYPT_ERROR:
      return "has another secret than this shell; give all shells of a job one file";
    case SSL_R_SSLV3_ALERT_HANDSHAKE_FAILURE: return fmt::format("is not of job {}", in_quotes(context_.job_id_));
    case SSL_R_UNSUPPORTED_PROTOCOL:
    case SSL_R_VERSION_TOO_LOW:
    case SSL_R_NO_PROTOCOLS_AVAILABLE:
    case SSL_R_TLSV1_ALERT_PROTOCOL_VERSION: return "speaks another version of TLS; 1.3 is needed";
    case SSL_R_NO_APPLICATION_PROTOCOL:
    case SSL_R_TLSV1_ALERT_NO_APPLICATION_PROTOCOL:
      return "speaks another version of nacre's protocol; install one version on all nodes";
    case SSL_R_HTTP_REQUEST:
    case SSL_R_HTTPS_PROXY_REQUEST:
    case SSL_R_WRONG_VERSION_NUMBER:
    case SSL_R_UNKNOWN_PROTOCOL: return "does not speak TLS: is it a shell of this job?";
    default: break;
  }
  const char* reason = lib.ERR_reason_error_string(error);
  return fmt::format("breaks the rules of TLS 1.3 ({}): is it a shell of this job?",
                     reason != nullptr ? reason : "it ended in the middle");
}

}  // namespace nacre::transport
