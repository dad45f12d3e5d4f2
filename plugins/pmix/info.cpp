// SPDX-License-Identifier: Apache-2.0
#include "info.hpp"

namespace nacre::pmix {

InfoList::InfoList(const pmix_info_t* items, std::size_t count) : items_(count) {
  // The elements are zero, which is an info without a value.
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

InfoList& InfoList::procs(const char* key, std::vector<pmix_proc_t> procs) {
  pmix_data_array_t array{PMIX_PROC, procs.size(), procs.data()};
  return add(key, &array, PMIX_DATA_ARRAY);
}

InfoList& InfoList::bytes(const char* key, std::string bytes) {
  pmix_byte_object_t object{bytes.data(), bytes.size()};
  return add(key, &object, PMIX_BYTE_OBJECT);
}

InfoList& InfoList::array(const char* key, InfoList members) {
  pmix_data_array_t array{PMIX_INFO, members.size(), members.data()};
  return add(key, &array, PMIX_DATA_ARRAY);
}

InfoList& InfoList::value(const char* key, const pmix_value_t& value) {
  pmix_info_t& info = items_.emplace_back();
  std::string(key).copy(info.key, PMIX_MAX_KEYLEN);
  PMIx_Value_xfer(&info.value, &value);
  return *this;
}

const pmix_value_t* InfoList::find(const char* key) const {
  for (const pmix_info_t& info : items_) {
    if (is(info, key)) return &info.value;
  }
  return nullptr;
}

std::string InfoList::packed() const {
  pmix_data_buffer_t buffer;
  PMIX_DATA_BUFFER_CONSTRUCT(&buffer);
  std::size_t count = items_.size();
  auto* items = const_cast<pmix_info_t*>(items_.data());
  pmix_status_t status = PMIx_Data_pack(nullptr, &buffer, &count, 1, PMIX_SIZE);
  if (status == PMIX_SUCCESS && count > 0) {
    status = PMIx_Data_pack(nullptr, &buffer, items, static_cast<std::int32_t>(count), PMIX_INFO);
  }
  std::string bytes;
  if (status == PMIX_SUCCESS) bytes.assign(buffer.base_ptr, buffer.bytes_used);
  PMIX_DATA_BUFFER_DESTRUCT(&buffer);
  return bytes;
}

InfoList InfoList::unpacked(const std::string& bytes) {
  InfoList list;
  pmix_data_buffer_t buffer;
  PMIX_DATA_BUFFER_CONSTRUCT(&buffer);
  pmix_byte_object_t object{const_cast<char*>(bytes.data()), bytes.size()};
  std::size_t count = 0;
  std::int32_t wanted = 1;
  pmix_status_t status = PMIx_Data_embed(&buffer, &object);  // a copy
  if (status == PMIX_SUCCESS) status = PMIx_Data_unpack(nullptr, &buffer, &count, &wanted, PMIX_SIZE);
  if (status == PMIX_SUCCESS && count > 0 && count <= bytes.size()) {
    list.items_.resize(count);
    wanted = static_cast<std::int32_t>(count);
    PMIx_Data_unpack(nullptr, &buffer, list.items_.data(), &wanted, PMIX_INFO);
  }
  PMIX_DATA_BUFFER_DESTRUCT(&buffer);
  return list;
}

void answer(InfoReply reply, pmix_status_t status, InfoList results) {
  auto* kept = new InfoList(std::move(results));
  auto release = [](void* list) { delete static_cast<InfoList*>(list); };
  reply.function(status, kept->data(), kept->size(), reply.data, release, kept);
}

void ModexReply::operator()(pmix_status_t status, const std::string& bytes) const {
  if (function == nullptr) return;
  auto* kept = new std::string(bytes);
  auto release = [](void* text) { delete static_cast<std::string*>(text); };
  function(status, kept->empty() ? nullptr : kept->data(), kept->size(), data, release, kept);
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

double timeout_in(const InfoList& directives) {
  const pmix_value_t* timeout = directives.find(PMIX_TIMEOUT);
  return timeout != nullptr ? static_cast<double>(std::max<std::int64_t>(0, number_of(*timeout).value_or(0))) : 0;
}

std::optional<std::string> text_of(const pmix_value_t& value) {
  if (value.type == PMIX_STRING && value.data.string != nullptr) return value.data.string;
  if (value.type == PMIX_BYTE_OBJECT && value.data.bo.bytes != nullptr) {
    return std::string(value.data.bo.bytes, value.data.bo.size);
  }
  return std::nullopt;
}

}  // namespace nacre::pmix
