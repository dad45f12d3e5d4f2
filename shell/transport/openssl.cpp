// SPDX-License-Identifier: Apache-2.0
#include "transport/openssl.hpp"

#include <dlfcn.h>

#include "base/program.hpp"

namespace nacre::transport {
namespace {

Error cannot_load(const char* library) {
  const char* why = ::dlerror();
  return Error{ENOENT, fmt::format("cannot load {}, which links between nodes need (Debian's package libssl3): {}",
                                   library, why != nullptr ? why : "unknown")};
}

// The same function for every load of the library.
decltype(&::SSL_get_ex_data) get_ex_data = nullptr;

template <typename Function>
Result<void> find_function(void* library, const char* soname, const char* name, Function& function) {
  function = reinterpret_cast<Function>(::dlsym(library, name));
  if (function == nullptr) return Error{ENOENT, fmt::format("{} has no {}; OpenSSL 3.0 is needed", soname, name)};
  return {};
}

}  // namespace

Result<OpenSsl> OpenSsl::load(const char* library) {
  // Never unmapped, as it keeps data for each thread. dlsym(3) on it finds the functions of its libcrypto too.
  void* handle = load_library(library, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (handle == nullptr) return cannot_load(library);
  OpenSsl ssl;
#define NACRE_FIND(name) CHECK_OK(find_function(handle, library, #name, ssl.name));
  NACRE_SSL_FUNCTIONS(NACRE_FIND)
  NACRE_CRYPTO_FUNCTIONS(NACRE_FIND)
#undef NACRE_FIND
  // Neither a file of the system nor a variable of the job's environment may change how a link works.
  if (ssl.OPENSSL_init_ssl(OPENSSL_INIT_NO_LOAD_CONFIG | OPENSSL_INIT_NO_ATEXIT, nullptr) != 1) {
    return invalid("libssl.so.3 cannot be initialised");
  }
  get_ex_data = ssl.SSL_get_ex_data;
  return ssl;
}

void* OpenSsl::owner_of(const SSL* ssl) { return get_ex_data(ssl, 0); }

}  // namespace nacre::transport
