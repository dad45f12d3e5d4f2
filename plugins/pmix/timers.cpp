// SPDX-License-Identifier: Apache-2.0
//
// libpmix 4.2.2 has one timer for a fence, or for what is done with a group, and sets it for each of a node's
// processes that comes with PMIX_TIMEOUT. libevent must not be given a timer anew that still runs: it has it twice
// then, and once the time is over libpmix's thread does nothing but run it. So such a timer is stopped first. When
// that of a group rings, libpmix takes what it has of the group for something else, and ends with the shell: so it
// does nothing here. The service has time-outs of its own for groups.
//
// These functions stand before those of libevent and libpmix for the libraries that this plugin brings, as it is
// loaded before them.
#include <dlfcn.h>

#include <cerrno>

#include "group_calls.hpp"

namespace {

constexpr short kEventTimeout = 1;

using EventCallback = void (*)(int, short, void*);

// None: libpmix is not on libevent.
template <typename Function>
Function* next(const char* name) {
  return reinterpret_cast<Function*>(::dlsym(RTLD_NEXT, name));
}

// The memory may be that of a timer before, of which libevent then returns what it was assigned, or have anything
// in it.
bool runs_already(void* event, void* base, EventCallback callback, void* argument) {
  static auto* const base_of = next<void*(const void*)>("event_get_base");
  static auto* const callback_of = next<EventCallback(const void*)>("event_get_callback");
  static auto* const argument_of = next<void*(const void*)>("event_get_callback_arg");
  static auto* const pending = next<int(const void*, short, void*)>("event_pending");
  if (base_of == nullptr || callback_of == nullptr || argument_of == nullptr || pending == nullptr) return false;
  return base_of(event) == base && callback_of(event) == callback && argument_of(event) == argument &&
         pending(event, kEventTimeout, nullptr) != 0;
}

int call_for_group(const char* name, void* caller, void* buffer) {
  auto* const call = next<int(void*, void*)>(name);
  if (call == nullptr) return -1;
  nacre::pmix::GroupCallScope scope;
  return call(caller, buffer);
}

}  // namespace

extern "C" __attribute__((visibility("default"))) int event_assign(void* event, void* base, int fd, short what,
                                                                   EventCallback callback, void* argument) {
  static auto* const assign = next<int(void*, void*, int, short, EventCallback, void*)>("event_assign");
  static auto* const stop = next<int(void*)>("event_del");
  if (assign == nullptr) {
    errno = ENOSYS;
    return -1;
  }
  bool is_timer = fd < 0 && what == 0 && base != nullptr;
  if (is_timer && nacre::pmix::is_in_group_call()) callback = [](int, short, void*) {};
  if (is_timer && stop != nullptr && runs_already(event, base, callback, argument)) stop(event);
  return assign(event, base, fd, what, callback, argument);
}

extern "C" __attribute__((visibility("default"))) int pmix_server_grpconstruct(void* caller, void* buffer) {
  return call_for_group("pmix_server_grpconstruct", caller, buffer);
}

extern "C" __attribute__((visibility("default"))) int pmix_server_grpdestruct(void* caller, void* buffer) {
  return call_for_group("pmix_server_grpdestruct", caller, buffer);
}
