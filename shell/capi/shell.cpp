// SPDX-License-Identifier: Apache-2.0
//
// <flux/shell.h>: options, environment, facts, and acting on the job.

#include "capi/capi.hpp"
#include "plugin/tags.hpp"

using namespace nacre;          // NOLINT
using namespace nacre::capi;    // NOLINT
using namespace nacre::plugin;  // NOLINT

namespace {

// -1 means this shell.
Result<Json> rank_info(flux_shell_t* shell, int shell_rank) {
  const job::Job& job = shell->host.job();
  if (shell_rank < -1) return invalid("no such shell");
  return job.rank_info(shell_rank == -1 ? job.shell_rank : static_cast<std::uint32_t>(shell_rank));
}

// From the plugin that has it.
Result<std::string> hwloc_xml(Host& host) {
  Call call("hwloc.xml");
  if (TRY(host.stack().call(call)) == 0) return Error{ENOSYS, "no plugin offers it"};
  return TRY(JsonAt::root(call.out, call.topic).at("xml")).string();
}

// Notes that the plugin whose handler runs has set the option.
void note_setter(plugin::Host& host, const char* option) {
  const auto* running = host.stack().running();
  host.options().note_setter(option, running != nullptr ? "plugin " + running->plugin->name() : "a plugin");
}

}  // namespace

flux_shell_t* flux_plugin_get_shell(flux_plugin_t* p) noexcept {
  return p != nullptr ? p->shell.get() : none(EINVAL);
}

int flux_shell_aux_set(flux_shell_t* shell, const char* key, void* val, flux_free_f free_fn) noexcept {
  if (shell == nullptr) return fail(EINVAL);
  return fail_with(shell->aux.set(key, val, free_fn));
}

void* flux_shell_aux_get(flux_shell_t* shell, const char* key) noexcept {
  if (shell == nullptr || key == nullptr) return none(EINVAL);
  void* found = shell->aux.get(key);
  return found != nullptr ? found : none(ENOENT);
}

int flux_shell_getopt(flux_shell_t* shell, const char* name, char** json_str) noexcept {
  if (shell == nullptr || name == nullptr) return fail(EINVAL);
  const Json* value = shell->host.options().find(name);
  if (value == nullptr) return 0;
  if (json_str != nullptr && give(json_str, *value) < 0) return -1;
  return 1;
}

int flux_shell_getopt_unpack(flux_shell_t* shell, const char* name, const char* fmt, ...) noexcept {
  if (shell == nullptr || name == nullptr) return fail(EINVAL);
  const Json* value = shell->host.options().find(name);
  if (value == nullptr) return 0;
  if (fmt == nullptr) return fail(EINVAL);
  std::string slot = fmt::format("option {}", name);
  va_list args;
  va_start(args, fmt);
  int done = unpack_for(shell, slot.c_str(), shell->kept.get(slot, *value), fmt, args);
  va_end(args);
  return done < 0 ? -1 : 1;
}

int flux_shell_setopt(flux_shell_t* shell, const char* name, const char* json_str) noexcept {
  if (shell == nullptr || name == nullptr || *name == '\0') return fail(EINVAL);
  if (json_str == nullptr) {
    shell->host.options().unset(name);
    return 0;
  }
  Result<Json> value = parse_json(json_str);
  if (!value) return fail(EINVAL);
  shell->host.options().set(name, *std::move(value));
  note_setter(shell->host, name);
  return 0;
}

int flux_shell_setopt_pack(flux_shell_t* shell, const char* name, const char* fmt, ...) noexcept {
  if (shell == nullptr || name == nullptr || *name == '\0' || fmt == nullptr) return fail(EINVAL);
  va_list args;
  va_start(args, fmt);
  Result<JsonRef> value = pack(fmt, args);
  va_end(args);
  if (!value) return fail(EINVAL);
  shell->host.options().set(name, from_jansson(value->get()));
  note_setter(shell->host, name);
  return 0;
}

const char* flux_shell_getenv(flux_shell_t* shell, const char* name) noexcept {
  if (shell == nullptr || name == nullptr) return none(EINVAL);
  auto value = shell->host.environment().get(name);
  return value ? value->data() : none(ENOENT);  // the end of "NAME=value", with its NUL
}

int flux_shell_get_environ(flux_shell_t* shell, char** json_str) noexcept {
  if (shell == nullptr || json_str == nullptr) return fail(EINVAL);
  Json all = Json::object();
  for (const auto& [name, value] : shell->host.environment().all()) all[std::string(name)] = value;
  return give(json_str, all);
}

int flux_shell_setenvf(flux_shell_t* shell, int overwrite, const char* name, const char* fmt, ...) noexcept {
  if (shell == nullptr || name == nullptr || fmt == nullptr) return fail(EINVAL);
  va_list args;
  va_start(args, fmt);
  std::optional<std::string> value = format(fmt, args);
  va_end(args);
  job::Environment& environment = shell->host.environment();
  if (!value || !job::Environment::check(name, *value)) return fail(EINVAL);
  if (overwrite == 0 && environment.get(name)) return fail(EEXIST);
  environment.set(name, *value);
  return 0;
}

int flux_shell_unsetenv(flux_shell_t* shell, const char* name) noexcept {
  if (shell == nullptr || name == nullptr) return fail(EINVAL);
  job::Environment& environment = shell->host.environment();
  if (!environment.get(name)) return fail(ENOENT);
  environment.unset(name);
  return 0;
}

int flux_shell_get_info(flux_shell_t* shell, char** json_str) noexcept {
  if (shell == nullptr || json_str == nullptr) return fail(EINVAL);
  return give(json_str, shell->host.info());
}

int flux_shell_info_unpack(flux_shell_t* shell, const char* fmt, ...) noexcept {
  if (shell == nullptr || fmt == nullptr) return fail(EINVAL);
  va_list args;
  va_start(args, fmt);
  int done = unpack_for(shell, "shell info", shell->kept.get("info", shell->host.info()), fmt, args);
  va_end(args);
  return done;
}

int flux_shell_get_rank_info(flux_shell_t* shell, int shell_rank, char** json_str) noexcept {
  if (shell == nullptr || json_str == nullptr) return fail(EINVAL);
  Result<Json> info = rank_info(shell, shell_rank);
  return info ? give(json_str, *info) : fail(EINVAL);
}

int flux_shell_rank_info_unpack(flux_shell_t* shell, int shell_rank, const char* fmt, ...) noexcept {
  if (shell == nullptr || fmt == nullptr) return fail(EINVAL);
  Result<Json> info = rank_info(shell, shell_rank);
  if (!info) return fail(EINVAL);
  std::string slot = fmt::format("rank info {}", shell_rank);
  va_list args;
  va_start(args, fmt);
  int done = unpack_for(shell, slot.c_str(), shell->kept.get(slot, *std::move(info)), fmt, args);
  va_end(args);
  return done;
}

int flux_shell_get_jobspec_info(flux_shell_t* shell, char** json_str) noexcept {
  if (shell == nullptr || json_str == nullptr) return fail(EINVAL);
  return give(json_str, shell->host.job().jobspec_info());
}

int flux_shell_jobspec_info_unpack(flux_shell_t* shell, const char* fmt, ...) noexcept {
  if (shell == nullptr || fmt == nullptr) return fail(EINVAL);
  va_list args;
  va_start(args, fmt);
  json_t* info = shell->kept.get("jobspec info", shell->host.job().jobspec_info());
  int done = unpack_for(shell, "jobspec info", info, fmt, args);
  va_end(args);
  return done;
}

const struct taskmap* flux_shell_get_taskmap(flux_shell_t* shell) noexcept {
  if (shell == nullptr) return none(EINVAL);
  shell->map.map = shell->host.job().taskmap;
  return &shell->map;
}

int flux_shell_add_completion_ref(flux_shell_t* shell, const char* fmt, ...) noexcept {
  if (shell == nullptr || fmt == nullptr) return fail(EINVAL);
  va_list args;
  va_start(args, fmt);
  std::optional<std::string> name = format(fmt, args);
  va_end(args);
  return name ? shell->host.hold(*name) : fail(EINVAL);
}

int flux_shell_remove_completion_ref(flux_shell_t* shell, const char* fmt, ...) noexcept {
  if (shell == nullptr || fmt == nullptr) return fail(EINVAL);
  va_list args;
  va_start(args, fmt);
  std::optional<std::string> name = format(fmt, args);
  va_end(args);
  return name ? fail_with(shell->host.release(*name)) : fail(EINVAL);
}

void flux_shell_killall(flux_shell_t* shell, int sig) noexcept {
  if (shell != nullptr && sig > 0) shell->host.kill_tasks(sig);
}

int nacre_shell_shrink(flux_shell_t* shell, nacre_shell_shrink_f fn, void* arg, const char* fmt, ...) noexcept {
  if (shell == nullptr || fmt == nullptr) return fail(EINVAL);
  va_list args;
  va_start(args, fmt);
  auto packed = pack(fmt, args);
  va_end(args);
  if (!packed) return fail(EINVAL);
  Json what = from_jansson(packed->get());
  auto order = value::ShrinkOrder::parse(JsonAt::root(what), value::ShrinkOrder::Unknown::refuse);
  if (!order) {
    shell->host.log().log(Level::error, "", "nacre_shell_shrink: {}", order.error().message);
    return fail(EINVAL);
  }
  auto receive = [shell, fn, arg, callback = Callback("shrink callback")](const Result<Json>& news, bool is_last) {
    if (!is_last || fn == nullptr) return;
    int errnum = news ? 0 : news.error().code;
    std::string text = news ? dump_json(*news) : news.error().message;
    callback.run([&] { fn(shell, errnum, text.c_str(), arg); });
  };
  std::erase_if(shell->waits, [](const Registration& each) { return !each.active(); });
  shell->waits.push_back(shell->host.shrink(*order, receive));
  return 0;
}

int flux_shell_plugstack_call(flux_shell_t* shell, const char* topic, flux_plugin_arg_t* args) noexcept {
  if (shell == nullptr || topic == nullptr) return fail(EINVAL);
  Call call(topic);
  if (args != nullptr) {
    call.in = from_jansson(args->side(FLUX_PLUGIN_ARG_IN));
    call.out = from_jansson(args->side(FLUX_PLUGIN_ARG_OUT));
  }
  Result<int> called = shell->host.stack().call(call);
  if (args != nullptr) {
    args->replace(FLUX_PLUGIN_ARG_OUT, to_jansson(call.out));
    args->written[FLUX_PLUGIN_ARG_OUT] = true;
  }
  if (called) return 0;
  // the caller only gets the number, so the text is logged
  shell->host.log().log(Level::error, "", "{}", called.error().message);
  return fail(called.error().code);
}

int flux_shell_add_event_context(flux_shell_t* shell, const char* name, int flags, const char* fmt, ...) noexcept {
  if (shell == nullptr || name == nullptr || fmt == nullptr || flags != 0) return fail(EINVAL);
  va_list args;
  va_start(args, fmt);
  Result<JsonRef> members = pack(fmt, args);
  va_end(args);
  if (!members || !json_is_object(members->get())) return fail(EINVAL);
  shell->host.add_event_context(name, from_jansson(members->get()));
  return 0;
}

int flux_shell_get_hwloc_xml(flux_shell_t* shell, const char** xmlp) noexcept {
  if (shell == nullptr || xmlp == nullptr) return fail(EINVAL);
  if (shell->hwloc_xml.empty()) {
    Result<std::string> xml = hwloc_xml(shell->host);
    if (!xml) {
      shell->host.log().log(Level::debug, "", "flux_shell_get_hwloc_xml: {}", xml.error().message);
      return fail(xml.error().code);
    }
    shell->hwloc_xml = std::move(*xml);
  }
  *xmlp = shell->hwloc_xml.c_str();
  return 0;
}

// <flux/shell.h>: tasks.

flux_shell_task_t* flux_shell_current_task(flux_shell_t* shell) noexcept {
  if (shell == nullptr) return none(EINVAL);
  return handle(shell->host.current_task());  // none is no error: errno does not change
}

flux_shell_task_t* flux_shell_task_first(flux_shell_t* shell) noexcept {
  if (shell == nullptr) return none(EINVAL);
  shell->next_task = 0;
  return flux_shell_task_next(shell);
}

flux_shell_task_t* flux_shell_task_next(flux_shell_t* shell) noexcept {
  if (shell == nullptr) return none(EINVAL);
  auto tasks = shell->host.tasks();
  if (tasks.empty()) return none(EAGAIN);
  if (shell->next_task >= tasks.size()) return nullptr;
  return handle(tasks[shell->next_task++].get());
}

int flux_shell_task_get_info(flux_shell_task_t* task, char** json_str) noexcept {
  if (task == nullptr || json_str == nullptr) return fail(EINVAL);
  return give(json_str, of(task)->info());
}

int flux_shell_task_info_unpack(flux_shell_task_t* task, const char* fmt, ...) noexcept {
  flux_shell* shell = current_shell();
  if (task == nullptr || fmt == nullptr || shell == nullptr) return fail(EINVAL);
  std::string slot = fmt::format("task {}", of(task)->local_id());
  va_list args;
  va_start(args, fmt);
  json_t* info = shell->kept.get(slot, of(task)->info(), KeptJson::Older::drop);
  int done = unpack_for(shell, slot.c_str(), info, fmt, args);
  va_end(args);
  return done;
}

flux_cmd_t* flux_shell_task_cmd(flux_shell_task_t* task) noexcept {
  return task != nullptr ? handle(&of(task)->command()) : none(EINVAL);
}

// <flux/shell.h>: templates.

namespace {

char* render(flux_shell_t* shell, const char* fmt, const TagScope& scope) {
  Result<std::string> text = render_tags(shell->host, fmt, scope);
  if (!text) {
    shell->host.log().log(Level::debug, "", "mustache: {}", text.error().message);
    return none(text.error().code);
  }
  char* copy = c_string(*text);
  return copy != nullptr ? copy : none(ENOMEM);
}

}  // namespace

char* flux_shell_mustache_render(flux_shell_t* shell, const char* fmt) noexcept {
  if (shell == nullptr || fmt == nullptr) return none(EINVAL);
  return render(shell, fmt, {.task = shell->host.current_task()});
}

char* flux_shell_rank_mustache_render(flux_shell_t* shell, int shell_rank, const char* fmt) noexcept {
  if (shell == nullptr || fmt == nullptr || shell_rank < -1) return none(EINVAL);
  TagScope scope;
  if (shell_rank >= 0) scope.shell_rank = static_cast<std::uint32_t>(shell_rank);
  return render(shell, fmt, scope);
}

char* flux_shell_task_mustache_render(flux_shell_t* shell, flux_shell_task_t* task, const char* fmt) noexcept {
  if (shell == nullptr || task == nullptr || fmt == nullptr) return none(EINVAL);
  return render(shell, fmt, {.task = of(task)});
}

bool flux_shell_mustache_is_per_rank(flux_shell_t* shell, const char* fmt) noexcept {
  if (shell == nullptr || fmt == nullptr) return fail(EINVAL) == 0;
  Result<bool> differs = differs_by_rank(shell->host, fmt);
  return differs ? *differs : fail(differs.error().code) == 0;
}
