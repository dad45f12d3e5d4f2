// SPDX-License-Identifier: Apache-2.0
//
// pmix: serves the tasks of a job as a PMIx server, if the shell option `pmi` has pmix in its list.

#include <jansson.h>

#include "service.hpp"

namespace nacre::pmix {
namespace {

bool is_wanted(flux_shell_t* shell) {
  const char* list = nullptr;
  if (flux_shell_getopt_unpack(shell, "pmi", "s", &list) <= 0 &&
      flux_shell_getopt_unpack(shell, "pmi", "{s:s}", "use", &list) <= 0) {
    return false;
  }
  for (std::string_view rest = list;;) {
    std::size_t comma = rest.find(',');
    if (rest.substr(0, comma) == "pmix") return true;
    if (comma == std::string_view::npos) return false;
    rest.remove_prefix(comma + 1);
  }
}

Service* service_of(flux_plugin_t* plugin) { return static_cast<Service*>(flux_plugin_aux_get(plugin, "service")); }

int on_init(flux_plugin_t* plugin, const char*, flux_plugin_arg_t*, void*) {
  flux_shell_t* shell = flux_plugin_get_shell(plugin);
  if (!is_wanted(shell)) return 0;
  int size = 0, standalone = 0;
  if (flux_shell_info_unpack(shell, "{s:i s:{s:b}}", "size", &size, "options", "standalone", &standalone) < 0) {
    return shell_log_errno("cannot find the size of the job");
  }
  if (size > 1 && standalone != 0) {
    shell_die(1, "pmi=pmix: this shell is one of %d, which do not know each other", size);
    return 0;
  }
  auto* service = new Service(plugin, shell, std::make_unique<PmixServer>(), {});
  flux_plugin_aux_set(plugin, "service", service, [](void* arg) { delete static_cast<Service*>(arg); });
  return service->start();
}

int on_task_init(flux_plugin_t* plugin, const char*, flux_plugin_arg_t*, void*) {
  Service* service = service_of(plugin);
  return service != nullptr ? service->prepare_task(flux_shell_current_task(flux_plugin_get_shell(plugin))) : 0;
}

int on_task_fork(flux_plugin_t* plugin, const char*, flux_plugin_arg_t*, void*) {
  Service* service = service_of(plugin);
  return service != nullptr ? service->task_started(flux_shell_current_task(flux_plugin_get_shell(plugin))) : 0;
}

int on_task_exit(flux_plugin_t* plugin, const char*, flux_plugin_arg_t*, void*) {
  Service* service = service_of(plugin);
  return service != nullptr ? service->task_ended(flux_shell_current_task(flux_plugin_get_shell(plugin))) : 0;
}

int on_connected(flux_plugin_t* plugin, const char*, flux_plugin_arg_t* args, void*) {
  Service* service = service_of(plugin);
  if (service == nullptr) return 0;
  return flux_plugin_arg_pack(args, FLUX_PLUGIN_ARG_OUT, "{s:s}", "pmix",
                              service->clients().connected_tasks().c_str());
}

int on_spawned(flux_plugin_t* plugin, const char*, flux_plugin_arg_t* args, void*) {
  Service* service = service_of(plugin);
  if (service == nullptr || !service->clients().has_connected_spawned()) return 0;
  return flux_plugin_arg_pack(args, FLUX_PLUGIN_ARG_OUT, "{s:b}", "pmix", 1);
}

int on_spawn_begins(flux_plugin_t* plugin, const char*, flux_plugin_arg_t* args, void*) {
  Service* service = service_of(plugin);
  return service != nullptr ? service->spawns().begins(args) : 0;
}

template <void (Spawns::*handle)(flux_plugin_arg_t*)>
int on_spawn_news(flux_plugin_t* plugin, const char*, flux_plugin_arg_t* args, void*) {
  if (Service* service = service_of(plugin)) (service->spawns().*handle)(args);
  return 0;
}

int on_spawns_over(flux_plugin_t* plugin, const char*, flux_plugin_arg_t*, void*) {
  if (Service* service = service_of(plugin)) service->spawns_over();
  return 0;
}

int on_note(flux_plugin_t* plugin, const char*, flux_plugin_arg_t* args, void*) {
  Service* service = service_of(plugin);
  int rank = -1;
  if (service == nullptr || flux_plugin_arg_unpack(args, FLUX_PLUGIN_ARG_IN, "{s:i}", "rank", &rank) < 0) return 0;
  const char* state = service->clients().state_of_task(static_cast<std::uint32_t>(rank));
  if (*state == '\0') return 0;
  return flux_plugin_arg_pack(args, FLUX_PLUGIN_ARG_OUT, "{s:{s:s s:s}}", "pmi", "by", "PMIx", "state", state);
}

// With on-lost=replace it is decided later what becomes of the tasks.
bool is_undecided(flux_shell_t* shell, int severity) {
  const char* on_lost = nullptr;
  if (severity == 0 || is_fault_tolerant(shell)) return false;
  return flux_shell_getopt_unpack(shell, "on-lost", "s", &on_lost) > 0 &&
         std::string_view(on_lost).starts_with("replace");
}

int on_lost(flux_plugin_t* plugin, const char*, flux_plugin_arg_t* args, void*) {
  Service* service = service_of(plugin);
  int shell = -1, severity = 0;
  if (service == nullptr || flux_plugin_arg_unpack(args, FLUX_PLUGIN_ARG_IN, "{s:i s?i}", "shell_rank", &shell,
                                                   "severity", &severity) < 0)
    return 0;
  if (is_undecided(flux_plugin_get_shell(plugin), severity)) return 0;
  service->ends().shell_lost(static_cast<std::uint32_t>(shell));
  return 0;
}

// A task that starts again. If nothing is served there is nothing that it could miss.
int on_restart(flux_plugin_t* plugin, const char*, flux_plugin_arg_t* args, void*) {
  Service* service = service_of(plugin);
  json_int_t rank = 0;
  if (flux_plugin_arg_unpack(args, FLUX_PLUGIN_ARG_IN, "{s:I}", "rank", &rank) < 0) return -1;
  std::string how = service != nullptr ? service->how_to_restart(static_cast<std::uint32_t>(rank)) : "alone";
  return flux_plugin_arg_pack(args, FLUX_PLUGIN_ARG_OUT, "{s:s}", "pmix", how.c_str());
}

int on_tasks_restart(flux_plugin_t* plugin, const char*, flux_plugin_arg_t* args, void*) {
  Service* service = service_of(plugin);
  const char* scope = "";
  json_int_t restarts = 0;
  if (service == nullptr) return 0;
  if (flux_plugin_arg_unpack(args, FLUX_PLUGIN_ARG_IN, "{s:s s?I}", "scope", &scope, "restarts", &restarts) < 0)
    return -1;
  return std::string_view(scope) == "job" ? service->await_start(static_cast<std::uint64_t>(restarts) + 1) : 0;
}

int on_start_again(flux_plugin_t* plugin, const char*, flux_plugin_arg_t* args, void*) {
  Service* service = service_of(plugin);
  int all = 0;
  if (service == nullptr || flux_plugin_arg_unpack(args, FLUX_PLUGIN_ARG_IN, "{s:b}", "all", &all) < 0) return 0;
  return all != 0 ? service->start_again() : 0;
}

// In a shrinking job this shell may be one of those that leave.
int on_shrinking(flux_plugin_t* plugin, const char*, flux_plugin_arg_t* args, void*) {
  Service* service = service_of(plugin);
  const char* text = nullptr;
  int own = -1;
  if (service == nullptr || flux_plugin_arg_unpack(args, FLUX_PLUGIN_ARG_IN, "{s:s}", "shells", &text) < 0)
    return 0;
  if (flux_shell_info_unpack(flux_plugin_get_shell(plugin), "{s:i}", "rank", &own) < 0) return -1;
  struct idset* shells = idset_decode(text);
  if (shells != nullptr && own >= 0 && idset_test(shells, static_cast<unsigned>(own))) service->shell_leaves();
  idset_destroy(shells);
  return 0;
}

int on_finish(flux_plugin_t* plugin, const char*, flux_plugin_arg_t*, void*) {
  if (Service* service = service_of(plugin)) service->tasks_are_over();
  return 0;
}

int on_exit(flux_plugin_t* plugin, const char*, flux_plugin_arg_t*, void*) {
  if (Service* service = service_of(plugin)) service->stop();
  return 0;
}

constexpr flux_plugin_handler kHandlers[] = {
    {"shell.init", on_init, nullptr},
    {"task.init", on_task_init, nullptr},
    {"task.fork", on_task_fork, nullptr},
    {"task.exit", on_task_exit, nullptr},
    {"shell.lost", on_lost, nullptr},
    {"shell.finish", on_finish, nullptr},
    {"shell.exit", on_exit, nullptr},
    {"pmi.connected", on_connected, nullptr},
    {"report.note", on_note, nullptr},
    {"shell.left", on_lost, nullptr},
    {"job.shrinking", on_shrinking, nullptr},
    {"pmi.spawned", on_spawned, nullptr},
    {"pmi.spawn-begins", on_spawn_begins, nullptr},
    {"pmi.spawn-started", on_spawn_news<&Spawns::started>, nullptr},
    {"pmi.spawn-exited", on_spawn_news<&Spawns::exited>, nullptr},
    {"pmi.spawn-settled", on_spawn_news<&Spawns::settled>, nullptr},
    {"pmi.spawns-over", on_spawns_over, nullptr},
    {"shell.not-replaced", on_lost, nullptr},
    {"pmi.restart", on_restart, nullptr},
    {"job.tasks-restart", on_tasks_restart, nullptr},
    {"shell.restart", on_start_again, nullptr},
    {nullptr, nullptr, nullptr},
};

}  // namespace
}  // namespace nacre::pmix

extern "C" __attribute__((visibility("default"))) int flux_plugin_init(flux_plugin_t* p) {
  using namespace nacre::pmix;  // NOLINT
  return flux_plugin_register(p, FLUX_SHELL_PLUGIN_NAME, kHandlers);
}
