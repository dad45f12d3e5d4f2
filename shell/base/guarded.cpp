// SPDX-License-Identifier: Apache-2.0
#include "base/guarded.hpp"

#include <unistd.h>

#include "base/current_call.hpp"
#include "base/print.hpp"

namespace nacre {
namespace {

const Component* running = nullptr;

std::function<void(const Component* component, std::string_view what)>& taker() {
  static std::function<void(const Component* component, std::string_view what)> take;
  return take;
}

constexpr unsigned kToEnd = 3;  // s
constexpr std::size_t kAnyBlock = 65536;

const char* program_of_lines = "";
std::terminate_handler usual_end = nullptr;

[[noreturn]] void end_without_memory() {
  (LastLine(program_of_lines) << "out of memory").write();
  ::_exit(1);
}

// Without memory even for an exception, there is none to ask about.
bool is_without_memory() {
  auto thrown = std::current_exception();
  if (thrown == nullptr)
    return std::unique_ptr<void, decltype(&std::free)>(std::malloc(kAnyBlock), std::free) == nullptr;
  try {
    std::rethrow_exception(thrown);
  } catch (const std::bad_alloc&) {
    return true;
  } catch (...) {
    return false;
  }
}

[[noreturn]] void end_uncaught() {
  if (is_without_memory()) end_without_memory();
  if (usual_end != nullptr) usual_end();
  std::abort();
}

// A callback that is lost because memory ran out may be one that everything waits for.
void end_soon_without_memory(const Component* component, const std::exception& thrown) {
  static bool is_set = false;
  if (component != nullptr && !component->is_vital) return;
  if (!taker() || dynamic_cast<const std::bad_alloc*>(&thrown) == nullptr || std::exchange(is_set, true)) return;
  struct sigaction action = {};
  action.sa_sigaction = [](int, siginfo_t* info, void*) {
    if (info->si_code == SI_KERNEL) end_without_memory();
  };
  action.sa_flags = SA_SIGINFO;
  ::sigaction(SIGALRM, &action, nullptr);
  ::alarm(kToEnd);
}

}  // namespace

void end_in_order_without_memory(const char* program) {
  program_of_lines = program;
  usual_end = std::set_terminate(end_uncaught);
}

InComponent::InComponent(const Component* component) : outer_(std::exchange(running, component)) {}
InComponent::~InComponent() { running = outer_; }
const Component* InComponent::current() { return running; }

void when_thrown(std::function<void(const Component* component, std::string_view what)> take) {
  taker() = std::move(take);
}

void report_thrown(const Component* component, const std::exception& thrown) {
  end_soon_without_memory(component, thrown);
  try {
    if (taker()) return taker()(component, thrown_text(thrown));
  } catch (const std::bad_alloc&) {
    end_without_memory();
  }
  print_err("{}: {}\n", program_invocation_short_name, thrown_text(thrown));
  ::_exit(1);
}

Error thrown_error(const std::exception& thrown) {
  end_soon_without_memory(running, thrown);
  return invalid(thrown_text(thrown));
}

std::string thrown_text(const std::exception& thrown) {
  if (dynamic_cast<const std::bad_alloc*>(&thrown) != nullptr) return "out of memory";
  return std::string("internal error: ") + thrown.what();
}

}  // namespace nacre
