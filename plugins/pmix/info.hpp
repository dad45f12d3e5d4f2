// SPDX-License-Identifier: Apache-2.0
//
// An array of pmix_info_t that owns its values: what libpmix is given, and copies of what it gives.
#pragma once

#include "flux.hpp"

namespace nacre::pmix {

class InfoList {
 public:
  InfoList() = default;
  InfoList(const pmix_info_t* items, std::size_t count);  // a copy
  InfoList(InfoList&& other) noexcept : items_(std::move(other.items_)) { other.items_.clear(); }
  InfoList(const InfoList& other) : InfoList(other.data(), other.size()) {}
  InfoList& operator=(InfoList other) noexcept;
  ~InfoList();

  InfoList& add(const char* key, const void* value, pmix_data_type_t type);  // a copy of the value
  InfoList& string(const char* key, const std::string& value) { return add(key, value.c_str(), PMIX_STRING); }
  InfoList& number(const char* key, std::uint32_t value) { return add(key, &value, PMIX_UINT32); }
  InfoList& number16(const char* key, std::uint16_t value) { return add(key, &value, PMIX_UINT16); }
  InfoList& integer(const char* key, int value) { return add(key, &value, PMIX_INT); }
  InfoList& rank(const char* key, pmix_rank_t value) { return add(key, &value, PMIX_PROC_RANK); }
  InfoList& flag(const char* key, bool value) { return add(key, &value, PMIX_BOOL); }
  InfoList& proc(const char* key, const pmix_proc_t& value) { return add(key, &value, PMIX_PROC); }
  InfoList& procs(const char* key, std::vector<pmix_proc_t> procs);
  InfoList& bytes(const char* key, std::string bytes);
  InfoList& array(const char* key, InfoList members);
  InfoList& value(const char* key, const pmix_value_t& value);  // a copy

  // As bytes for another node's libpmix. unpacked() returns an empty list for invalid bytes.
  [[nodiscard]] std::string packed() const;
  static InfoList unpacked(const std::string& bytes);

  [[nodiscard]] const pmix_info_t* data() const { return items_.data(); }
  [[nodiscard]] pmix_info_t* data() { return items_.data(); }
  [[nodiscard]] std::size_t size() const { return items_.size(); }
  [[nodiscard]] bool empty() const { return items_.empty(); }
  [[nodiscard]] auto begin() const { return items_.begin(); }
  [[nodiscard]] auto end() const { return items_.end(); }

  [[nodiscard]] const pmix_value_t* find(const char* key) const;  // nullptr: there is none

 private:
  std::vector<pmix_info_t> items_;
};

// libpmix takes over the results and releases them later.
void answer(InfoReply reply, pmix_status_t status, InfoList results);

bool is(const pmix_info_t& info, const char* key);
// A flag without a value is set.
bool is_true(const pmix_value_t& value);
std::optional<std::int64_t> number_of(const pmix_value_t& value);
double timeout_in(const InfoList& directives);                  // seconds; 0: none
std::optional<std::string> text_of(const pmix_value_t& value);  // the text of a string, or of bytes

}  // namespace nacre::pmix
