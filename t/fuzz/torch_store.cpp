// SPDX-License-Identifier: Apache-2.0
//
// What a client of the store of torch.distributed sends, and the changes of another shell: pieces make no
// difference, and what is taken is the same behind its way.
#include "plugins/torch/store_keys.hpp"
#include "plugins/torch/store_requests.hpp"
#include "require.hpp"

using namespace nacre;
using namespace nacre::plugins;
using nacre::fuzz::require;

namespace {

// The answers, and the error if there is one.
std::string answers(std::string_view bytes, std::size_t piece) {
  StoreRequests requests;
  StoreKeys keys;
  std::string out;
  for (std::size_t at = 0; at < bytes.size(); at += piece) {
    requests.add(bytes.substr(at, piece));
    for (;;) {
      auto request = requests.next();
      if (!request) return out + request.error().message;
      if (!*request) break;
      if (!(*request)->changes_keys()) {
        const auto kind = (*request)->kind;
        if (kind != StoreRequest::Kind::wait && kind != StoreRequest::Kind::cancel_wait)
          out += keys.answer(**request);
        continue;
      }
      std::string encoded;
      encode_store_request(encoded, **request);
      std::string_view rest = encoded;
      auto again = decode_store_request(rest);
      require(again && rest.empty() && again->words == (*request)->words, "a change is the same behind its way");
      auto answer = keys.change(*std::move(again));
      out += answer ? *answer : answer.error().message;
    }
  }
  return out;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size) {
  std::string_view bytes(reinterpret_cast<const char*>(data), size);
  require(answers(bytes, 1) == answers(bytes, 4096), "pieces make no difference");
  StoreKeys keys;
  static_cast<void>(keys.read(bytes));
  return 0;
}
