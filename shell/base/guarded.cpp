// SPDX-License-Identifier: Apache-2.0
#include "base/guarded.hpp"

#include <unistd.h>

#include <cerrno>
#include <new>
#include <utility>

#include "base/print.hpp"

namespace nacre {
namespace {

const Component* running = nullptr;

std::function<void(const Component* component, std::string_view what)>& taker() {
  static std::function<void(const Component* component, std::string_view what)> take;
  return take;
}

}  // namespace

InComponent::InComponent(const Component* component) : outer_(std::exchange(running, component)) {}
InComponent::~InComponent() { running = outer_; }
const Component* InComponent::current() { return running; }

void when_thrown(std::function<void(const Component* component, std::string_view what)> take) {
  taker() = std::move(take);
}

void report_thrown(const Component* component, const std::exception& thrown) {
  if (taker()) return taker()(component, thrown_text(thrown));
  print_err("{}: {}\n", program_invocation_short_name, thrown_text(thrown));
  ::_exit(1);
}

std::string thrown_text(const std::exception& thrown) {
  if (dynamic_cast<const std::bad_alloc*>(&thrown) != nullptr) return "out of memory";
  return std::string("internal error: ") + thrown.what();
}

}  // namespace nacre
