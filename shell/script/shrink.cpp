// SPDX-License-Identifier: Apache-2.0
//
// shell.shrink { hosts = "n[2-3]" } and what the job's leader answers.
#include "script/binding.hpp"
#include "script/json.hpp"
#include "value/shrunk.hpp"

namespace nacre::script {
namespace {

constexpr std::string_view kShrink = "shell.shrink";

}  // namespace

Result<int> shrink(Interpreter& self, lua_State* lua) {
  Arguments arguments(lua, kShrink);
  CHECK_OK(arguments.table(1, "what"));
  bool has_function = arguments.count() >= 2 && !lua_isnil(lua, 2);
  if (has_function && !lua_isfunction(lua, 2)) return arguments.expected(2, "done", "a function");
  Json what = TRY(in(kShrink, to_json(lua, 1, "what")));
  auto order = TRY(in(kShrink, value::ShrinkOrder::parse(JsonAt::root(what), value::ShrinkOrder::Unknown::refuse)));
  const Interpreter::LuaHandler* done = nullptr;
  if (has_function) {
    lua_settop(lua, 2);
    Interpreter::Context context = self.context();
    context.topic = kShrink;
    done = &self.keep_handler(lua, std::move(context));
  }
  self.wait_for(self.host().shrink(order, [&self, done](const Result<Json>& news, bool is_last) {
    if (is_last && done != nullptr) self.answer(*done, news);
    if (is_last && done == nullptr && !news)
      self.host().log().log(Level::warn, "", "{}: {}", kShrink, news.error().message);
  }));
  return 0;
}

}  // namespace nacre::script
