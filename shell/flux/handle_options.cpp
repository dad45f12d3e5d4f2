// SPDX-License-Identifier: Apache-2.0
//
// <flux/handle.h>: options of a handle.
#include <cstring>

#include "flux/handle.hpp"

using namespace nacre;        // NOLINT
using namespace nacre::capi;  // NOLINT

namespace {

// 0, or -1 with EINVAL: `val` is no such number.
template <typename T>
int take(T& out, const void* val, size_t len) {
  if (val == nullptr || len != sizeof out) return fail(EINVAL);
  std::memcpy(&out, val, sizeof out);
  return 0;
}

template <typename T>
int give_number(T number, void* val, size_t len) {
  if (val == nullptr || len != sizeof number) return fail(EINVAL);
  std::memcpy(val, &number, sizeof number);
  return 0;
}

}  // namespace

int flux_opt_set(flux_t* h, const char* option, const void* val, size_t len) noexcept {
  if (h == nullptr || option == nullptr) return fail(EINVAL);
  std::string_view name = option;
  if (name == FLUX_OPT_TESTING_USERID) return take(h->root().testing.userid, val, len);
  if (name == FLUX_OPT_TESTING_ROLEMASK) return take(h->root().testing.rolemask, val, len);
  return fail(EINVAL);
}

int flux_opt_get(flux_t* h, const char* option, void* val, size_t len) noexcept {
  if (h == nullptr || option == nullptr) return fail(EINVAL);
  std::string_view name = option;
  if (name == FLUX_OPT_TESTING_USERID) return give_number(h->root().testing.userid, val, len);
  if (name == FLUX_OPT_TESTING_ROLEMASK) return give_number(h->root().testing.rolemask, val, len);
  if (name == FLUX_OPT_RECV_QUEUE_COUNT) return give_number(h->incoming.size(), val, len);
  if (name == FLUX_OPT_SEND_QUEUE_COUNT) return give_number(h->link != nullptr ? h->outgoing.size() : 0, val, len);
  return fail(EINVAL);
}

int flux_pollfd(flux_t* h) noexcept { return h != nullptr ? h->incoming.fd() : fail(EINVAL); }
