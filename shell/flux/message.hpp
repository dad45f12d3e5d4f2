// SPDX-License-Identifier: Apache-2.0
//
// The implementation of flux_msg_t. Flux's functions change flags, references and aux items of const messages too.
#pragma once

#include <atomic>
#include <optional>
#include <string>
#include <vector>

#include "capi/capi.hpp"

struct flux_msg {
  explicit flux_msg(int of_type) : type(of_type) {}

  mutable std::atomic<int> references = 1;  // threads may pass messages to each other
  int type;
  int flags = 0;
  std::string topic;
  std::vector<std::string> routes;     // ids, the first that was pushed first
  std::optional<std::string> payload;  // text ends with its NUL
  uint32_t nodeid = FLUX_NODEID_ANY;
  int errnum = 0;
  uint32_t matchtag = FLUX_MATCHTAG_NONE;
  uint32_t seq = 0;
  uint32_t userid = FLUX_USERID_UNKNOWN;
  uint32_t rolemask = FLUX_ROLE_NONE;
  std::optional<uint32_t> from;  // a request from that other shell of the job, or a response to one
  bool is_of_broker = false;     // a request that the broker has brought, or a response to one
  mutable nacre::capi::AuxItems aux;
  mutable nacre::capi::JsonRef json;  // the payload's, once it was asked for
  mutable std::string last_error;
};

namespace nacre::flux {

// A counted reference.
class MsgRef {
 public:
  MsgRef() = default;
  explicit MsgRef(const flux_msg* taken) : msg_(taken) {}
  MsgRef(MsgRef&& other) noexcept : msg_(std::exchange(other.msg_, nullptr)) {}
  MsgRef& operator=(MsgRef&& other) noexcept {
    std::swap(msg_, other.msg_);
    return *this;
  }
  ~MsgRef() { flux_msg_decref(msg_); }
  [[nodiscard]] static MsgRef to(const flux_msg* msg) { return MsgRef(flux_msg_incref(msg)); }

  [[nodiscard]] const flux_msg* get() const { return msg_; }
  const flux_msg* operator->() const { return msg_; }
  [[nodiscard]] const flux_msg* release() { return std::exchange(msg_, nullptr); }

 private:
  const flux_msg* msg_ = nullptr;
};

// 0, or -1 with EINVAL (NULL), EPROTO (another type, or no topic). `topic` may be NULL.
int check_kind(const flux_msg_t* msg, int type, const char** topic);

}  // namespace nacre::flux
