// SPDX-License-Identifier: Apache-2.0
//
// Functions that plugins give to the shell, to be called later. Each is called until its Registration is destroyed.
// So a plugin that has its Registrations as its last members is never called once it is destroyed.
//
// A function that is called may destroy any Registration, its own too, and may add functions. When a Registration
// is destroyed its function is not called any more; an added function is called from the next call on. A
// Registration may outlive its list. What a function throws is reported, and the others are called
// (base/guarded.hpp).
#pragma once

#include "base/guarded.hpp"

namespace nacre::plugin {

class [[nodiscard]] Registration {
 public:
  // The part of a list that belongs to a Registration.
  class Entry : Noncopyable {
   public:
    Entry() = default;
    virtual ~Entry() = default;
    [[nodiscard]] virtual bool active() const = 0;
    virtual void end(std::unique_ptr<Entry> self) = 0;  // `self` is this entry
  };

  Registration() = default;
  explicit Registration(std::unique_ptr<Entry> entry) : entry_(std::move(entry)) {}
  Registration(Registration&&) noexcept = default;
  Registration& operator=(Registration&& other) noexcept {
    Registration old(std::exchange(entry_, std::move(other.entry_)));
    return *this;
  }
  ~Registration() {
    if (Entry* entry = entry_.get()) entry->end(std::move(entry_));
  }

  // Whether the function may still be called.
  [[nodiscard]] bool active() const { return entry_ && entry_->active(); }

 private:
  std::unique_ptr<Entry> entry_;
};

template <typename... Args>
class CallbackList : Noncopyable {
 public:
  using Function = std::function<void(Args...)>;

  CallbackList() = default;
  ~CallbackList() {
    for (Item* item : items_) {
      if (item != nullptr) item->list = nullptr;
    }
  }

  Registration add(Function function) {
    auto item = std::make_unique<Item>(*this, std::move(function));
    items_.push_back(item.get());
    return Registration(std::move(item));
  }

  // Calls all registered functions, in the order in which they were added.
  void call(Args... args) {
    ++depth_;
    for (std::size_t i = 0, count = items_.size(); i < count; ++i) {
      if (Item* item = items_[i]) guarded(item->component, [&] { item->function(args...); });
    }
    if (--depth_ > 0) return;
    std::erase(items_, nullptr);
    auto ended = std::exchange(ended_, {});  // what they destroy may call this object again
  }

  [[nodiscard]] bool empty() const {
    return std::all_of(items_.begin(), items_.end(), [](const Item* item) { return item == nullptr; });
  }

 private:
  struct Item final : Registration::Entry {
    Item(CallbackList& of, Function to_call) : list(&of), function(std::move(to_call)) {}
    [[nodiscard]] bool active() const override { return list != nullptr; }
    void end(std::unique_ptr<Entry> self) override {
      if (list != nullptr) list->remove(*this, std::move(self));
    }

    CallbackList* list;  // nullptr once the list has gone
    const Component* component = InComponent::current();
    Function function;
  };

  void remove(Item& item, std::unique_ptr<Registration::Entry> owner) {
    item.list = nullptr;
    *std::find(items_.begin(), items_.end(), &item) = nullptr;
    if (depth_ > 0) {
      ended_.push_back(std::move(owner));  // it may be the one that is being called
    } else {
      std::erase(items_, nullptr);
    }
  }

  std::vector<Item*> items_;  // Registrations own them; nullptr: ended during a call
  std::vector<std::unique_ptr<Registration::Entry>> ended_;
  int depth_ = 0;
};

// Functions that are each called once, with an answer that comes later or never.
template <typename Answer>
class PendingAnswers {
 public:
  // `receive` takes the answer. It must not be called once this list is destroyed.
  struct Pending {
    Registration registration;
    std::function<void(Answer)> receive;
  };
  Pending add(std::function<void(Answer)> done) {
    std::uint64_t id = ++count_;
    auto once = [done = std::move(done)](Answer& answer) { done(std::move(answer)); };
    Registration registration = pending_[id].add(std::move(once));
    return {std::move(registration), [this, id](Answer answer) {
              auto taken = pending_.extract(id);
              if (taken) taken.mapped().call(answer);
            }};
  }

 private:
  std::map<std::uint64_t, CallbackList<Answer&>> pending_;
  std::uint64_t count_ = 0;
};

}  // namespace nacre::plugin
