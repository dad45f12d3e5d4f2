// SPDX-License-Identifier: Apache-2.0
//
// taskmap.reverse: the last task comes first.
//
//   -o taskmap=reverse
//
// A taskmap.* plugin is asked once, before there are tasks: it gets the block map and answers with another. The
// shell checks that the answer has every task once and gives no node more tasks than it has room for.
#define FLUX_SHELL_PLUGIN_NAME "taskmap.reverse"
#include <flux/shell.h>

#include <cstdlib>
#include <memory>

namespace {

// The C API's objects, freed when they go out of scope.
struct Free {
  void operator()(char* text) const { std::free(text); }
  void operator()(taskmap* map) const { taskmap_destroy(map); }
};
using Text = std::unique_ptr<char, Free>;
using Map = std::unique_ptr<taskmap, Free>;

// Task 0 where the last one was, and so on.
Map reversed(const taskmap* block) {
  Map map(taskmap_create());
  for (int task = taskmap_total_ntasks(block) - 1; map && task >= 0; --task) {
    if (taskmap_append(map.get(), taskmap_nodeid(block, task), 1, 1) < 0) return nullptr;
  }
  return map;
}

// What goes in is {"taskmap": S, "scheme": S, "value": S}, the value "" if the user gave none; what comes out is
// {"taskmap": S}.
int answer(flux_plugin_t*, const char*, flux_plugin_arg_t* args, void*) {
  const char* text = nullptr;
  if (flux_plugin_arg_unpack(args, FLUX_PLUGIN_ARG_IN, "{s:s}", "taskmap", &text) < 0) {
    shell_log_error("arguments: %s", flux_plugin_arg_strerror(args));
    return -1;
  }
  flux_error_t error;
  Map block(taskmap_decode(text, &error));
  if (!block) {
    shell_log_error("%s", error.text);
    return -1;
  }
  Map map = reversed(block.get());
  Text result(map ? taskmap_encode(map.get(), TASKMAP_ENCODE_WRAPPED) : nullptr);
  if (!result) return shell_log_errno("cannot reverse the task map");
  return flux_plugin_arg_pack(args, FLUX_PLUGIN_ARG_OUT, "{s:s}", "taskmap", result.get());
}

}  // namespace

// <flux/shell.h> declares it extern "C".
int flux_plugin_init(flux_plugin_t* p) { return flux_plugin_add_handler(p, "taskmap.reverse", answer, nullptr); }
