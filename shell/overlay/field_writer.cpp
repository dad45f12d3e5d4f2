// SPDX-License-Identifier: Apache-2.0
#include "overlay/field_writer.hpp"

#include <algorithm>

namespace nacre::overlay {

Bytes& FieldWriter::begin(std::string_view key) {
  end_last();
  fields_.at(count_++) = {key, values_.size(), 0};
  return values_;
}

void FieldWriter::write(Bytes& out) {
  end_last();
  std::sort(fields_.begin(), fields_.begin() + count_,
            [](const Field& a, const Field& b) { return a.key < b.key; });
  append_cbor(out, CborKind::map, count_);
  for (std::size_t i = 0; i < count_; ++i) {
    const Field& each = fields_.at(i);
    append_cbor(out, CborKind::text, each.key);
    out.append(values_, each.begin, each.end - each.begin);
  }
}

}  // namespace nacre::overlay
