// SPDX-License-Identifier: Apache-2.0
#include "callbacks.hpp"

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "group_calls.hpp"
#include "group_data.hpp"
#include "query_answer.hpp"
#include "service.hpp"
#include "spawns.hpp"

namespace nacre::pmix {
namespace {

std::mutex mutex;
Service* current = nullptr;

// PMIX_SUCCESS: an answer will follow.
template <typename Work>
pmix_status_t post(Work work) {
  std::lock_guard lock(mutex);
  Service* service = current;
  if (service == nullptr) return PMIX_ERR_UNREACH;
  service->inbox().post([service, work = std::move(work)] { work(*service); });
  return PMIX_SUCCESS;
}

std::vector<std::string> strings(char** list) {
  std::vector<std::string> copy;
  for (; list != nullptr && *list != nullptr; ++list) copy.emplace_back(*list);
  return copy;
}

pmix_status_t client_connected(const pmix_proc_t* proc, void*, pmix_info_t*, std::size_t, pmix_op_cbfunc_t done,
                               void* data) {
  return post([id = *proc, reply = OperationReply{done, data}](Service& service) { service.connected(id, reply); });
}

pmix_status_t client_finalized(const pmix_proc_t* proc, void*, pmix_op_cbfunc_t done, void* data) {
  return post([id = *proc, reply = OperationReply{done, data}](Service& service) { service.finalized(id, reply); });
}

pmix_status_t abort(const pmix_proc_t* proc, void*, int status, const char* message, pmix_proc_t* procs,
                    std::size_t nprocs, pmix_op_cbfunc_t done, void* data) {
  std::vector<pmix_proc_t> ids(procs, procs + nprocs);
  std::string text = message != nullptr ? message : "";
  return post([id = *proc, status, text, ids, reply = OperationReply{done, data}](Service& service) {
    service.ends().aborted(id, status, text, ids, reply);
  });
}

std::vector<pmix_proc_t> processes(const pmix_proc_t* procs, std::size_t count) {
  return count > 0 ? std::vector<pmix_proc_t>(procs, procs + count) : std::vector<pmix_proc_t>();
}

// Called if a participant is on another node, or has ended. libpmix passes its status as the last info.
pmix_status_t fence(const pmix_proc_t* procs, std::size_t nprocs, const pmix_info_t* info, std::size_t ninfo,
                    char* bytes, std::size_t size, pmix_modex_cbfunc_t done, void* data) {
  std::string mine(bytes != nullptr ? bytes : "", bytes != nullptr ? size : 0);
  std::free(bytes);
  pmix_status_t local = PMIX_SUCCESS;
  if (ninfo > 0 && is(info[ninfo - 1], PMIX_LOCAL_COLLECTIVE_STATUS)) local = info[ninfo - 1].value.data.status;
  return post([ids = processes(procs, nprocs), mine, local, timeout = timeout_in(InfoList(info, ninfo)),
               reply = ModexReply{done, data}](Service& service) {
    service.peers().fence(ids, local, mine, timeout, reply);
  });
}

// The key that the client waits for, "" if any will do; clients do not commit reserved ones.
std::string awaited_key(const InfoList& directives) {
  const pmix_value_t* key = directives.find(PMIX_REQUIRED_KEY);
  std::string name = key != nullptr ? text_of(*key).value_or("") : "";
  return PMIX_CHECK_RESERVED_KEY(name.c_str()) ? "" : name;
}

// Called for a process that is not on this node.
pmix_status_t direct_modex(const pmix_proc_t* proc, const pmix_info_t* info, std::size_t ninfo,
                           pmix_modex_cbfunc_t done, void* data) {
  InfoList how(info, ninfo);
  return post([id = *proc, key = awaited_key(how), timeout = timeout_in(how), reply = ModexReply{done, data}](
                  Service& service) { service.peers().direct_modex(id, key, timeout, reply); });
}

pmix_status_t publish(const pmix_proc_t* proc, const pmix_info_t* info, std::size_t ninfo, pmix_op_cbfunc_t done,
                      void* data) {
  return post([id = *proc, items = InfoList(info, ninfo), reply = OperationReply{done, data}](Service& service) {
    service.peers().publish(id, items, reply);
  });
}

pmix_status_t lookup(const pmix_proc_t* proc, char** keys, const pmix_info_t* info, std::size_t ninfo,
                     pmix_lookup_cbfunc_t done, void* data) {
  return post([id = *proc, names = strings(keys), how = InfoList(info, ninfo), done, data](Service& service) {
    service.peers().look_up(id, names, how, done, data);
  });
}

pmix_status_t unpublish(const pmix_proc_t* proc, char** keys, const pmix_info_t* info, std::size_t ninfo,
                        pmix_op_cbfunc_t done, void* data) {
  return post([id = *proc, names = strings(keys), how = InfoList(info, ninfo), reply = OperationReply{done, data}](
                  Service& service) { service.peers().unpublish(id, names, how, reply); });
}

pmix_status_t spawn(const pmix_proc_t* proc, const pmix_info_t* info, std::size_t ninfo, const pmix_app_t* apps,
                    std::size_t napps, pmix_spawn_cbfunc_t done, void* data) {
  std::vector<SpawnApp> copies;
  for (std::size_t i = 0; i < napps; ++i) {
    SpawnApp app{strings(apps[i].argv), strings(apps[i].env), apps[i].cwd != nullptr ? apps[i].cwd : "",
                 apps[i].maxprocs};
    if (app.argv.empty() && apps[i].cmd != nullptr) app.argv = {apps[i].cmd};
    InfoList how(apps[i].info, apps[i].ninfo);
    if (const pmix_value_t* wdir = how.find(PMIX_WDIR); app.directory.empty() && wdir != nullptr) {
      app.directory = text_of(*wdir).value_or("");
    }
    if (const pmix_value_t* hosts = how.find(PMIX_HOST)) app.hosts = text_of(*hosts).value_or("");
    copies.push_back(std::move(app));
  }
  return post([id = *proc, job = InfoList(info, ninfo), copies, done, data](Service& service) {
    service.spawns().spawn(id, job, copies, done, data);
  });
}

// Needs no list of connected processes, as every end of a process is reported to all processes that ask for it.
template <char kind>
pmix_status_t connect(const pmix_proc_t* procs, std::size_t nprocs, const pmix_info_t* info, std::size_t ninfo,
                      pmix_op_cbfunc_t done, void* data) {
  return post([ids = processes(procs, nprocs), timeout = timeout_in(InfoList(info, ninfo)),
               reply = OperationReply{done, data}](Service& service) {
    service.peers().connect(kind, ids, timeout, reply);
  });
}

// Events go to all processes, whether they have registered or not.
pmix_status_t register_events(pmix_status_t*, std::size_t, const pmix_info_t*, std::size_t, pmix_op_cbfunc_t,
                              void*) {
  return PMIX_OPERATION_SUCCEEDED;
}

pmix_status_t deregister_events(pmix_status_t*, std::size_t, pmix_op_cbfunc_t, void*) {
  return PMIX_OPERATION_SUCCEEDED;
}

// The clients of this node have it already.
pmix_status_t notify_event(pmix_status_t code, const pmix_proc_t* source, pmix_data_range_t range,
                           pmix_info_t* info, std::size_t ninfo, pmix_op_cbfunc_t, void*) {
  pmix_status_t posted = post([code, id = *source, range, about = InfoList(info, ninfo)](Service& service) {
    service.peers().notify(code, id, range, about);
  });
  return posted == PMIX_SUCCESS ? PMIX_OPERATION_SUCCEEDED : posted;
}

pmix_status_t query(pmix_proc_t*, pmix_query_t* queries, std::size_t count, pmix_info_cbfunc_t done, void* data) {
  std::vector<ClientQuery> copies;
  for (std::size_t i = 0; i < count; ++i) {
    copies.push_back({strings(queries[i].keys), InfoList(queries[i].qualifiers, queries[i].nqual)});
  }
  return post([copies, reply = InfoReply{done, data}](Service& service) { service.query(copies, reply); });
}

void log(const pmix_proc_t* client, const pmix_info_t* items, std::size_t count, const pmix_info_t*, std::size_t,
         pmix_op_cbfunc_t done, void* data) {
  OperationReply reply{done, data};
  pmix_status_t posted = post(
      [id = *client, copy = InfoList(items, count), reply](Service& service) { service.log(id, copy, reply); });
  if (posted != PMIX_SUCCESS) reply(posted);
}

pmix_status_t job_control(const pmix_proc_t* requestor, const pmix_proc_t* targets, std::size_t ntargets,
                          const pmix_info_t* directives, std::size_t ndirs, pmix_info_cbfunc_t done, void* data) {
  std::vector<pmix_proc_t> ids(targets, targets + ntargets);
  return post([id = *requestor, ids, how = InfoList(directives, ndirs),
               reply = InfoReply{done, data}](Service& service) { service.control(id, ids, how, reply); });
}

bool has_flag(const InfoList& directives, const char* key) {
  const pmix_value_t* value = directives.find(key);
  return value != nullptr && is_true(*value);
}

// The members are to be found out: PMIx 6 has that.
bool adds_members(const InfoList& directives) {
#ifdef PMIX_GROUP_BOOTSTRAP
  if (directives.find(PMIX_GROUP_BOOTSTRAP) != nullptr) return true;
#endif
  return directives.find(PMIX_GROUP_ADD_MEMBERS) != nullptr;
}

// Called when all members of this node have come. libpmix passes what members have put as an info, too.
pmix_status_t group(pmix_group_operation_t operation, char* name, const pmix_proc_t* procs, std::size_t nprocs,
                    const pmix_info_t* infos, std::size_t count, pmix_info_cbfunc_t done, void* data) {
  if (!is_first_call_for(data)) return PMIX_SUCCESS;
  InfoList directives(infos, count);
  if (nprocs == 0 || adds_members(directives)) return PMIX_ERR_NOT_SUPPORTED;
  GroupCall call;
  if (operation == PMIX_GROUP_DESTRUCT) call.kind = Groups::Kind::destruct;
  call.name = name != nullptr ? name : "";
  call.members = processes(procs, nprocs);
  call.timeout = timeout_in(directives);
  call.notifies = has_flag(directives, PMIX_GROUP_NOTIFY_TERMINATION);
  call.part.wants_id = has_flag(directives, PMIX_GROUP_ASSIGN_CONTEXT_ID);
  call.part.is_optional = has_flag(directives, PMIX_GROUP_OPTIONAL);
  const pmix_value_t* local = directives.find(PMIX_LOCAL_COLLECTIVE_STATUS);
  call.part.is_whole = local == nullptr || local->data.status == PMIX_SUCCESS;
  if (call.kind == Groups::Kind::construct) call.part.bytes = group_data_of(directives);
  return post([call, reply = InfoReply{done, data}](Service& service) { service.group(call, reply); });
}

}  // namespace

void serve(Service* service) {
  std::lock_guard lock(mutex);
  current = service;
}

pmix_server_module_t server_module() {
  pmix_server_module_t module{};
  module.client_connected2 = client_connected;
  module.client_finalized = client_finalized;
  module.abort = abort;
  module.fence_nb = fence;
  module.direct_modex = direct_modex;
  module.publish = publish;
  module.lookup = lookup;
  module.unpublish = unpublish;
  module.spawn = spawn;
  module.connect = connect<'c'>;
  module.disconnect = connect<'d'>;
  module.register_events = register_events;
  module.deregister_events = deregister_events;
  module.notify_event = notify_event;
  module.query = query;
  module.log = log;
  module.job_control = job_control;
  module.group = group;
  return module;
}

void process_forgotten(pmix_status_t, void* process) {
  std::unique_ptr<pmix_proc_t> id(static_cast<pmix_proc_t*>(process));
  post([copy = *id](Service& service) { service.stand_ins().forgotten(copy); });
}

void modex_found(pmix_status_t status, char* data, std::size_t size, void* question) {
  std::string bytes(data != nullptr ? data : "", data != nullptr ? size : 0);
  auto number = reinterpret_cast<std::uintptr_t>(question);
  post([number, status, bytes](Service& service) { service.peers().found(number, status, bytes); });
}

void key_looked_up(pmix_status_t status, std::uintptr_t question) {
  post([question, is_there = status == PMIX_SUCCESS](Service& service) {
    service.peers().key_looked_up(question, is_there);
  });
}

// A process that is deregistered takes part in nothing any more. It is done here, not by the loop, so that no
// client can begin a collective operation between the loss and this.
void lost_connection(std::size_t, pmix_status_t, const pmix_proc_t* source, pmix_info_t*, std::size_t, pmix_info_t*,
                     std::size_t, pmix_event_notification_cbfunc_fn_t done, void* data) {
  std::unique_lock lock(mutex);
  bool goes_on = current != nullptr && current->fault_tolerant();
  bool is_of_interest = current != nullptr && current->outlives_clients();
  lock.unlock();
  if (goes_on)
    PMIx_server_deregister_client(
        source, [](pmix_status_t, void*) {}, nullptr);
  if (is_of_interest) post([id = *source](Service& service) { service.ends().connection_lost(id); });
  if (done != nullptr) done(PMIX_EVENT_ACTION_COMPLETE, nullptr, 0, nullptr, nullptr, data);
}

}  // namespace nacre::pmix
