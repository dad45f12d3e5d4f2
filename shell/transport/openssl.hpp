// SPDX-License-Identifier: Apache-2.0
//
// libssl, loaded when the first link over TCP is made: mapping it would cost each job without one more than a
// millisecond. Each function that is used is a member of its own name and type; see ssl(7).
#pragma once

#include <openssl/err.h>
#include <openssl/ssl.h>

#include "base/result.hpp"

namespace nacre::transport {

// clang-format off
#define NACRE_SSL_FUNCTIONS(X)                                                                                   \
  X(OPENSSL_init_ssl)                                                                                            \
  X(SSL_CTX_new) X(SSL_CTX_free) X(SSL_CTX_ctrl) X(SSL_CTX_set_options) X(SSL_CTX_clear_options)                 \
  X(SSL_CTX_set_ciphersuites) X(SSL_CTX_set_num_tickets) X(SSL_set_verify) X(SSL_CTX_set_alpn_protos)        \
  X(SSL_CTX_set_alpn_select_cb) X(SSL_CTX_set_psk_use_session_callback)                                          \
  X(SSL_CTX_set_psk_find_session_callback)                                         \
  X(TLS_method) X(SSL_new) X(SSL_free) X(SSL_set_bio) X(SSL_set_accept_state) X(SSL_set_connect_state)           \
  X(SSL_set_ex_data) X(SSL_get_ex_data) X(SSL_do_handshake) X(SSL_read) X(SSL_write) X(SSL_get_error)            \
  X(SSL_session_reused) X(SSL_key_update) X(SSL_get0_alpn_selected) X(SSL_CIPHER_find)                           \
  X(SSL_SESSION_new) X(SSL_SESSION_free) X(SSL_SESSION_up_ref) X(SSL_SESSION_set1_master_key)                    \
  X(SSL_SESSION_set_cipher) X(SSL_SESSION_set_protocol_version)
#define NACRE_CRYPTO_FUNCTIONS(X)                                                                                \
  X(BIO_new) X(BIO_s_mem) X(BIO_read) X(BIO_write) X(BIO_ctrl)                                                   \
  X(ERR_clear_error) X(ERR_peek_error) X(ERR_reason_error_string) X(EVP_sha256) X(EVP_Digest) X(HMAC)
// clang-format on

class OpenSsl {
 public:
  // `library` is its soname; tests give another to see the error when it is missing.
  static Result<OpenSsl> load(const char* library = "libssl.so.3");

#define NACRE_DECLARE(name) decltype(&::name) name = nullptr;
  NACRE_SSL_FUNCTIONS(NACRE_DECLARE)
  NACRE_CRYPTO_FUNCTIONS(NACRE_DECLARE)
#undef NACRE_DECLARE

  // The pointer that was stored with SSL_set_ex_data(ssl, 0, ...): callbacks get nothing else.
  static void* owner_of(const SSL* ssl);

 private:
  OpenSsl() = default;
};

}  // namespace nacre::transport
