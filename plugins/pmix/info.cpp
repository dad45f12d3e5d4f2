// SPDX-License-Identifier: Apache-2.0
#include "info.hpp"

#include <cstring>

namespace nacre::pmix {

InfoList::InfoList(const pmix_info_t* items, std::size_t count) : items_(count) {
  // A vector's elements are zero, which is what an info without a value is.
  for (std::size_t i = 0; i < count; ++i) PMIx_Info_xfer(&items_[i], &items[i]);
}

InfoList& InfoList::operator=(InfoList other) noexcept {
  items_.swap(other.items_);
  return *this;
}

InfoList::~InfoList() {
  for (pmix_info_t& info : items_) PMIx_Value_destruct(&info.value);
}

InfoList& InfoList::add(const char* key, const void* value, pmix_data_type_t type) {
  PMIx_Info_load(&items_.emplace_back(), key, value, type);
  return *this;
}

InfoList& InfoList::array(const char* key, InfoList members) {
  pmix_data_array_t array{PMIX_INFO, members.size(), members.data()};
  return add(key, &array, PMIX_DATA_ARRAY);
}

const pmix_value_t* InfoList::find(const char* key) const {
  for (const pmix_info_t& info : items_) {
    if (is(info, key)) return &info.value;
  }
  return nullptr;
}

void answer(InfoReply reply, pmix_status_t status, InfoList results) {
  auto* kept = new InfoList(std::move(results));
  auto release = [](void* list) { delete static_cast<InfoList*>(list); };
  reply.function(status, kept->data(), kept->size(), reply.data, release, kept);
}

bool is(const pmix_info_t& info, const char* key) { return std::strncmp(info.key, key, PMIX_MAX_KEYLEN) == 0; }

bool is_true(const pmix_value_t& value) {
  if (value.type == PMIX_UNDEF) return true;
  if (value.type == PMIX_BOOL) return value.data.flag;
  return number_of(value).value_or(0) != 0;
}

std::optional<std::int64_t> number_of(const pmix_value_t& value) {
  switch (value.type) {
    case PMIX_SIZE: return static_cast<std::int64_t>(value.data.size);
    case PMIX_INT: return value.data.integer;
    case PMIX_INT8: return value.data.int8;
    case PMIX_INT16: return value.data.int16;
    case PMIX_INT32: return value.data.int32;
    case PMIX_INT64: return value.data.int64;
    case PMIX_UINT: return value.data.uint;
    case PMIX_UINT8: return value.data.uint8;
    case PMIX_UINT16: return value.data.uint16;
    case PMIX_UINT32: return value.data.uint32;
    case PMIX_UINT64: return static_cast<std::int64_t>(value.data.uint64);
    case PMIX_PROC_RANK: return value.data.rank;
    case PMIX_STATUS: return value.data.status;
    case PMIX_DATA_RANGE: return value.data.range;
    case PMIX_PERSIST: return value.data.persist;
    default: return std::nullopt;
  }
}

std::optional<std::string> text_of(const pmix_value_t& value) {
  if (value.type == PMIX_STRING && value.data.string != nullptr) return value.data.string;
  if (value.type == PMIX_BYTE_OBJECT && value.data.bo.bytes != nullptr) {
    return std::string(value.data.bo.bytes, value.data.bo.size);
  }
  return std::nullopt;
}

}  // namespace nacre::pmix
