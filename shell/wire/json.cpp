// SPDX-License-Identifier: Apache-2.0
#include "wire/json.hpp"

namespace nacre::wire {

Result<std::size_t> Words::find(const JsonAt& at) const {
  const std::string_view* end = words_ + count_;
  if (at.json().is_string()) {
    const std::string_view* found = std::find(words_, end, at.json().get_ref<const std::string&>());
    if (found != end) return static_cast<std::size_t>(found - words_);
  }
  if (why_ != nullptr) return at.error(why_);
  return at.expected(want_ != nullptr ? want_ : fmt::format("one of {}", fmt::join(words_, end, ", ")));
}

std::optional<JsonAt> ObjectReader::find(const char* key, bool must) {
  if (error_) return std::nullopt;
  auto found = at_.find(key);
  if (!found)
    error_ = std::move(found).error();
  else if (!*found && must)
    error_ = at_.error(fmt::format("missing key '{}'", key));
  else
    return *std::move(found);
  return std::nullopt;
}

void ObjectReader::refuse(const char* key, std::string_view why) {
  auto at = find(key, true);
  if (at) error_ = at->error(why);
}

void ObjectReader::has_one_of(std::initializer_list<const char*> keys) {
  auto found = std::count_if(keys.begin(), keys.end(), [this](const char* each) { return find(each, false); });
  if (error_ || found == 1) return;
  auto others = std::span(keys.begin(), keys.size() - 1);
  error_ = at_.error(fmt::format("expected one of {} and {}", fmt::join(others, ", "), others.end()[0]));
}

Result<void> ObjectReader::end() && {
  if (!error_ && !at_.json().is_object()) error_ = at_.expected("an object");
  if (error_) return *std::move(error_);
  return {};
}

ArrayReader::ArrayReader(const JsonAt& at) : ErrorKeeper(at) {
  auto all = at.elements();
  if (all)
    elements_ = *std::move(all);
  else
    error_ = std::move(all).error();
}

const JsonAt* ArrayReader::next() {
  if (error_) return nullptr;
  if (next_ < elements_.size()) return &elements_[next_++];
  error_ = at_.expected(want_);
  return nullptr;
}

Result<void> ArrayReader::end() && {
  if (!error_ && next_ < elements_.size() && others_ == Others::refuse) error_ = at_.expected(want_);
  if (error_) return *std::move(error_);
  return {};
}

}  // namespace nacre::wire
