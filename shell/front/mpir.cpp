// SPDX-License-Identifier: Apache-2.0
#include "front/mpir.hpp"

#include "base/program.hpp"
#include "event/clock.hpp"
#include "front/job_verb.hpp"
#include "record/places.hpp"

// Debuggers know these names and this layout, and write to some of them. The program exports them, so that they are
// found even if it is stripped.
#define EXPORTED [[gnu::used, gnu::visibility("default")]]

extern "C" {

struct MPIR_PROCDESC {
  char* host_name;
  char* executable_name;
  int pid;
};

enum { MPIR_NULL = 0, MPIR_DEBUG_SPAWNED = 1, MPIR_DEBUG_ABORTING = 2 };

// Declared first: a compiler may take a definition alone for one that nothing else can know.
extern MPIR_PROCDESC* MPIR_proctable;
extern int MPIR_proctable_size;
extern volatile int MPIR_being_debugged;
extern volatile int MPIR_debug_state;
extern char* MPIR_debug_abort_string;
extern int MPIR_i_am_starter;
extern int MPIR_partial_attach_ok;
extern int MPIR_acquired_pre_main;
void MPIR_Breakpoint();

EXPORTED MPIR_PROCDESC* MPIR_proctable = nullptr;
EXPORTED int MPIR_proctable_size = 0;
EXPORTED volatile int MPIR_being_debugged = 0;
EXPORTED volatile int MPIR_debug_state = MPIR_NULL;
EXPORTED char* MPIR_debug_abort_string = nullptr;
// Their presence alone is the information.
EXPORTED int MPIR_i_am_starter = 1;
EXPORTED int MPIR_partial_attach_ok = 1;
EXPORTED int MPIR_acquired_pre_main = 1;

EXPORTED [[gnu::noinline]] void MPIR_Breakpoint() { asm volatile("" ::: "memory"); }

}  // extern "C"

namespace nacre::front {
namespace {

// What the table points to, for the rest of this process.
std::vector<MpirProcess> shown;
std::vector<MPIR_PROCDESC> table;
std::string abort_text;

Result<void> add_part(const Json& part, std::vector<MpirProcess>& out) {
  for (const JsonAt& row : TRY(TRY(JsonAt::root(part).at("tasks")).elements())) {
    const auto rank = static_cast<std::size_t>(TRY(TRY(row.at("rank")).integer(0, UINT32_MAX)));
    if (rank >= out.size()) return row.expected("a rank of the job");
    out[rank] = {TRY(TRY(row.at("host")).string()), TRY(TRY(row.at("exe")).string()),
                 static_cast<int>(TRY(TRY(row.at("pid")).integer(0, INT32_MAX)))};
  }
  return {};
}

}  // namespace

bool debugger_asks() { return MPIR_being_debugged != 0; }

Result<std::vector<MpirProcess>> mpir_processes(control::Client& client, std::uint64_t tasks) {
  std::vector<MpirProcess> out(tasks);
  Result<void> taken;
  Json last = TRY(client.ask("plan", Json::object(), [&](const Json& part) {
    if (taken) taken = add_part(part, out);
  }));
  CHECK_OK(in("what the leader answers", std::move(taken)));
  const Json& late = member_of(last, "late");
  if (!late.is_array() || late.empty()) return out;
  return Error{ETIMEDOUT, fmt::format("no answer in time from the shells on {}", dump_json(late))};
}

Result<std::vector<MpirProcess>> mpir_processes(const value::JobId& job) {
  auto list = record::JobList::read(record::places(own_variable), record::own_witness(), event::wall_clock());
  const record::Listed& listed = *TRY(list.find(job.f58_plain()));
  auto client = TRY(reach(listed.entry, list.directories[listed.place].path(), {}));
  auto out = TRY(mpir_processes(client, listed.entry.tasks));
  for (std::size_t rank = 0; rank < out.size(); ++rank) {
    if (out[rank].pid == 0) return Error{EAGAIN, fmt::format("task {} does not run", rank)};
  }
  return out;
}

void show_to_debugger(std::vector<MpirProcess> processes) {
  shown = std::move(processes);
  table.clear();
  for (MpirProcess& each : shown) table.push_back({each.host.data(), each.executable.data(), each.pid});
  MPIR_proctable = table.data();
  MPIR_proctable_size = static_cast<int>(table.size());
  MPIR_debug_state = MPIR_DEBUG_SPAWNED;
  MPIR_Breakpoint();
}

void show_end_to_debugger(std::string how) {
  abort_text = std::move(how);
  MPIR_debug_abort_string = abort_text.data();
  MPIR_debug_state = MPIR_DEBUG_ABORTING;
  MPIR_Breakpoint();
}

}  // namespace nacre::front
