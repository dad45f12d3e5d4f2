// SPDX-License-Identifier: Apache-2.0
//
// Environment variables: the job's, and each task's as a layer over the job's. A layer costs what it changes, not
// what it inherits, so that 100,000 variables are stored once for any number of tasks.
#pragma once

#include "base/result.hpp"

namespace nacre::job {

class Environment {
 public:
  Environment() = default;
  Environment(Environment&&) = default;
  Environment& operator=(Environment&&) = default;
  // A layer over `base`, which must outlive it, must not move, and must not change while blocks of the layer are in
  // use.
  static Environment over(const Environment& base);
  // This process's own variables; entries that are not NAME=value are left out.
  static Environment own();

  // A name is not empty and has neither '=' nor NUL; a value has no NUL.
  static Result<void> check(std::string_view name, std::string_view value);

  // A NUL follows the text. Valid until this or its base changes.
  [[nodiscard]] std::optional<std::string_view> get(std::string_view name) const;
  void set(std::string_view name, std::string_view value);  // check() has to accept both
  void unset(std::string_view name);

  // All variables, each once: those of the base in its order, then those that only this layer has, in the order in
  // which they were first set.
  [[nodiscard]] std::vector<std::pair<std::string_view, std::string_view>> all() const;

  // For execve(2): "NAME=value" pointers and a nullptr. Valid until this or its base changes.
  [[nodiscard]] std::vector<const char*> block() const;

 private:
  struct Entry {
    std::string text;  // NAME=value; NAME alone: the layer unsets it
    std::size_t name_size = 0;
    [[nodiscard]] std::string_view name() const { return std::string_view(text).substr(0, name_size); }
    [[nodiscard]] std::optional<std::string_view> value() const {
      if (text.size() == name_size) return std::nullopt;
      return std::string_view(text).substr(name_size + 1);
    }
  };

  void put(std::string text, std::size_t name_size);
  // Each entry of the base, then each of this layer, has a slot, whether it counts or not.
  [[nodiscard]] std::size_t slots() const { return (base_ == nullptr ? 0 : base_->slots()) + entries_.size(); }
  [[nodiscard]] std::optional<std::size_t> slot(std::string_view name) const;  // the first one of this name
  // By slot; an entry takes the slot of the one that it overrides
  [[nodiscard]] std::vector<const Entry*> collect() const;

  const Environment* base_ = nullptr;
  std::deque<Entry> entries_;  // their addresses do not change: the index keys refer to them
  std::unordered_map<std::string_view, std::size_t> index_;
};

}  // namespace nacre::job
