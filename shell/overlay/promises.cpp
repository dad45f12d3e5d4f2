// SPDX-License-Identifier: Apache-2.0
#include "overlay/promises.hpp"

#include <fmt/format.h>

namespace nacre::overlay {
namespace {

Result<Value> value_promised(const Promise& promise, const Bytes& bytes, const OverlayOptions& options) {
  if (bytes.size() != promise.size) {
    return invalid(fmt::format("{} bytes have come; {} were announced", bytes.size(), promise.size));
  }
  if (!options.digest) return invalid("this member has no digest to check it by");
  Bytes digest = TRY(options.digest(bytes));
  if (digest != promise.digest) return invalid("it has another digest than was announced");
  return decode_value(promise.merge, bytes);
}

}  // namespace

void Promises::settle(Seq applied, const OverlayOptions& options, Outbox& out) {
  while (!values_.empty() && values_.begin()->first <= applied) {
    auto arrived = values_.extract(values_.begin());
    auto promise = promises_.extract(arrived.key());
    if (promise.empty()) continue;
    auto value = value_promised(promise.mapped(), arrived.mapped(), options);
    std::string& name = promise.mapped().name;
    if (value) {
      out.put(Released{std::move(name), promise.mapped().merge, *std::move(value)});
    } else {
      out.put(Unfit{std::move(name), value.error().message});
    }
  }
}

}  // namespace nacre::overlay
