// SPDX-License-Identifier: Apache-2.0
//
// What the processes of a job request from each other's nodes: collectives, groups, each other's data, published
// data, events, signals. A request becomes a message to all shells, and is answered when this shell receives its
// own message: by then all nodes that need it have it. All runs on the loop's thread.
//
// A job of one shell receives only its own messages. In messages a process is named by its number of ProcessMap.
#pragma once

#include <list>

#include "groups.hpp"
#include "server.hpp"

namespace nacre::pmix {

// What the members of a group request together, as libpmix passes it on.
struct GroupCall {
  Groups::Kind kind = Groups::Kind::construct;
  std::string name;
  std::vector<pmix_proc_t> members;
  double timeout = 0;     // seconds; 0: none
  bool notifies = false;  // tell the members when one of them ends
  Groups::Part part = {};
};

// The process groups that clients of this shell construct and destruct, together with those of other shells: Groups
// decides what becomes of each; here the shells send each other the messages for that, and clients get their
// answers. Members that have asked for it get an event when another member of the group ends.
//
// Ranks are numbers of ProcessMap.
class PeerGroups {
 public:
  struct Calls {
    std::function<void(PeerMessage message)> send;
    std::function<void(double seconds, std::function<void()> function)> after;
    std::function<bool(Rank number)> has_ended;  // as far as this shell knows
  };

  // When a client's time-out, in seconds, is due, as this shell keeps it.
  static double due_at(double timeout);

  // `processes` and `server` have to outlive this object.
  PeerGroups(const ProcessMap& processes, ServerApi& server, std::uint32_t own, Calls calls)
      : processes_(processes), server_(server), own_(own), calls_(std::move(calls)), groups_(processes, own) {}

  // The members of this shell have come.
  void enter(const GroupCall& call, const std::vector<Rank>& members, InfoReply reply);
  // Answers waiting clients, which have ended.
  void give_up();

  void receive(const PeerMessage& message);                // a group, leave or gone
  void ended(Rank number);                                 // all shells receive this
  void over(std::uint32_t shell) { groups_.over(shell); }  // the same: none of the shell's processes is left
  void lost(std::uint32_t shell);                          // the shell is lost with its processes

  // A process of this shell has ended; report() sends it to the others if one of them waits for it.
  void ended_here(Rank number) { groups_.ended_here(number); }
  void report();
  [[nodiscard]] bool is_watched(Rank number) const;  // other processes are to get an event when it ends

 private:
  struct Waiting {
    GroupCall call;
    InfoReply reply;
  };

  [[nodiscard]] bool reaches_out(const std::vector<Rank>& members) const;
  [[nodiscard]] Groups::Outcome outcome_here(const GroupCall& call, const std::vector<Rank>& members) const;
  void give_up_late(std::uint64_t number, const std::string& name, std::uint64_t part);
  void answer(const Waiting& waiting, const Groups::Outcome& outcome);
  void notify_watchers(Rank number);

  const ProcessMap& processes_;
  ServerApi& server_;
  std::uint32_t own_;
  Calls calls_;
  Groups groups_;
  std::map<std::uint64_t, Waiting> waiting_;  // by a number of this shell's own
  std::uint64_t last_ = 0;
  std::map<std::string, std::vector<Rank>> watched_;  // members that are to be notified when one ends, by group
};

// The messages of the shells to each other, as events of the job. Each has the number of the start of the tasks
// that it is about; only messages about the start that has begun here are passed on.
class PeerLink {
 public:
  using Receive = std::function<void(const PeerMessage& message)>;

  explicit PeerLink(flux_shell_t* shell) : shell_(shell) {}
  ~PeerLink() { close(); }
  PeerLink(const PeerLink&) = delete;
  PeerLink& operator=(const PeerLink&) = delete;

  int listen();                                                                 // 0, or -1 with errno
  void close() { flux_msg_handler_destroy(std::exchange(handler_, nullptr)); }  // receives nothing more

  // This start will come, and its messages are kept until it begins here.
  void await(std::uint64_t start) { filter_.await(start); }
  void begin(std::uint64_t start, Receive receive);
  void send(PeerMessage message) const;  // about the start that has begun

 private:
  flux_shell_t* shell_;
  flux_msg_handler_t* handler_ = nullptr;
  StartFilter filter_;
  Receive receive_;
};

// The processes of a namespace, of all shells that have some: this shell asks the others for theirs, and answers
// what they ask. ProcessTables puts the answers together.
class PeerTables {
 public:
  struct Calls {
    std::function<void(PeerMessage message)> send;
    std::function<void(double seconds, std::function<void()> function)> after;
    std::function<std::vector<ProcessRow>(const std::string& nspace)> rows;  // of this shell
  };

  // `processes` has to outlive this object.
  PeerTables(const ProcessMap& processes, std::uint32_t own, Calls calls)
      : processes_(processes), own_(own), calls_(std::move(calls)) {}

  // Asks these shells; those that do not answer within `seconds` are left out.
  void list(const std::string& nspace, std::set<std::uint32_t> shells, double seconds, ProcessTables::Done done);
  void receive(const PeerMessage& message);  // a list or rows
  void lost(std::uint32_t shell) { tables_.lost(shell); }
  void give_up() { tables_.give_up_all(); }

 private:
  [[nodiscard]] std::vector<std::string> own_rows(const std::string& nspace) const;

  const ProcessMap& processes_;
  std::uint32_t own_;
  Calls calls_;
  ProcessTables tables_;
};

// What processes publish for others to look up. A key is unique in its range. Each node has all data, as all nodes
// perform the same operations in the same order.
class PublishedData {
 public:
  using Found = std::function<void(pmix_status_t status, std::vector<pmix_pdata_t>& data)>;

  // `info`: the values and, among them, the directives PMIX_RANGE and PMIX_PERSISTENCE. PMIX_ERR_DUPLICATE_KEY: the
  // store is not changed.
  pmix_status_t publish(const pmix_proc_t& publisher, const InfoList& info);
  // Removes the publisher's own keys; all of them if none is named.
  void unpublish(const pmix_proc_t& publisher, const std::vector<std::string>& keys, const InfoList& directives);

  // Calls `found` at once, or when all of the keys (with PMIX_WAIT=n: n of them) are there. `request`: a number
  // that no other has.
  void look_up(std::uint64_t request, const pmix_proc_t& id, std::vector<std::string> keys,
               const InfoList& directives, Found found);
  void give_up(std::uint64_t request, pmix_status_t status);  // ignored if the request was answered

  // Removes data that was to stay as long as the process, and the process's requests.
  void process_ended(const pmix_proc_t& process);
  void namespace_ended(const std::string& nspace);

 private:
  struct Item {
    std::string key;
    InfoList value;  // one element
    pmix_proc_t publisher;
    pmix_data_range_t range;
    pmix_persistence_t persistence;
  };
  struct Request {
    std::uint64_t number;
    pmix_proc_t id;
    std::vector<std::string> keys;
    pmix_data_range_t range;  // preferred: a range without meaning, which Open MPI 5.0 gives if it is told none
    std::size_t wanted;
    Found found;
  };

  static bool visible(const Item& item, const pmix_proc_t& id);
  std::vector<Item*> matches(const Request& request);
  void answer(const Request& request, const std::vector<Item*>& items);
  void retry();

  std::list<Item> items_;
  std::list<Request> waiting_;
};

class Peers {
 public:
  struct Duties {
    std::function<void(const std::vector<pmix_proc_t>& targets, int signum)> signal;  // to those of this shell
    std::function<void(double seconds, std::function<void()> function)> after;
    // Whether a client of this shell has died without which no fence may come to its end. `local`: libpmix's
    // status.
    std::function<bool(pmix_status_t local)> misses_client;
    std::function<std::vector<ProcessRow>(const std::string& nspace)> rows;  // of this shell
  };

  struct Shells {
    std::uint32_t own = 0;
    std::uint32_t count = 1;
  };
  // For one start of the tasks, whose namespace is `home`. `home`, the link and the server have to outlive this
  // object.
  Peers(PeerLink& link, ServerApi& server, const JobFacts& home, Shells shells, Duties duties);
  Peers(const Peers&) = delete;
  Peers& operator=(const Peers&) = delete;

  void receive(const PeerMessage& message);
  // Answers all that clients wait for: they have ended.
  void give_up();

  // Adds a spawned namespace. Until it is settled other shells may not know it yet, so requests of its processes to
  // those wait.
  void add(const JobFacts& facts);
  void settled(const std::string& nspace, bool is_there);

  [[nodiscard]] bool several() const { return shells_.count > 1; }

  // Requests of clients. A timeout is in seconds, 0: none.
  void fence(const std::vector<pmix_proc_t>& procs, pmix_status_t local, std::string bytes, double timeout,
             ModexReply reply);
  void connect(char kind, const std::vector<pmix_proc_t>& procs, double timeout, OperationReply reply);
  void group(const GroupCall& call, InfoReply reply);
  // The rows of all processes of a namespace, without those of shells that do not answer within `seconds`.
  void list(const std::string& nspace, double seconds, ProcessTables::Done done);
  // What the process has committed, once that has `key`, if a key is named.
  void direct_modex(const pmix_proc_t& proc, const std::string& key, double timeout, ModexReply reply);
  void publish(const pmix_proc_t& id, const InfoList& info, OperationReply reply);
  void look_up(const pmix_proc_t& id, const std::vector<std::string>& keys, const InfoList& directives,
               pmix_lookup_cbfunc_t function, void* data);
  void unpublish(const pmix_proc_t& id, const std::vector<std::string>& keys, const InfoList& directives,
                 OperationReply reply);
  // Passes an event on to the clients of the other nodes.
  void notify(pmix_status_t code, const pmix_proc_t& source, pmix_data_range_t range, const InfoList& info);
  void signal(const std::vector<Rank>& numbers, int signum);
  // Defines, or redefines, a set of processes, in this order, that all processes of the job may ask for by its
  // name.
  void define_set(const std::string& name, const std::vector<pmix_proc_t>& procs, InfoReply reply);
  [[nodiscard]] const std::map<std::string, std::vector<pmix_proc_t>>& sets() const { return sets_; }

  // libpmix's result for a question of another shell; ignored if the question was answered.
  void found(std::uintptr_t question, pmix_status_t status, std::string bytes);
  void key_looked_up(std::uintptr_t question, bool is_there);

  // A process of this shell has ended; `others_care`: others may wait for it.
  void ended(const pmix_proc_t& id, bool others_care);
  void namespace_ended(const std::string& nspace);
  void over();  // the processes of this shell have ended
  void lost(std::uint32_t shell);
  [[nodiscard]] bool has_ended(Rank number) const { return ended_.count(number) > 0; }  // as far as is known
  [[nodiscard]] const ProcessMap& processes() const { return processes_; }
  // The processes of a shell that have not ended.
  [[nodiscard]] std::vector<pmix_proc_t> left_on(std::uint32_t shell) const;

 private:
  struct Request {  // this shell waits for its result
    OperationReply reply;
    pmix_lookup_cbfunc_t look_up = nullptr;
    void* data = nullptr;
    ModexReply modex;
    InfoReply info;
    std::optional<std::uint32_t> asked;  // the shell that was asked, for a direct modex
    void answer(pmix_status_t status, const std::string& bytes = {}) const;
  };

  void send(PeerMessage message);
  std::uint64_t expect(const Request& request, double timeout = 0);
  Request take(std::uint64_t number);  // empty: it is not this shell's, or was answered
  void left_by(std::uint32_t shell, const std::string& nspace);
  // If libpmix has data of a process that has ended it answers at once, or never.
  static constexpr double kAnswerTime = 1;  // second
  void receive_question(const PeerMessage& message);
  void look_up(std::uintptr_t question);
  void find_all(std::uintptr_t question);
  void give_up_after(double seconds, std::uintptr_t question, pmix_status_t status);
  void receive_of_store(const PeerMessage& message);
  void receive_signal(const PeerMessage& message);
  void receive_set(const PeerMessage& message);
  void receive_end(const PeerMessage& message);
  void receive_event(const PeerMessage& message);
  bool is_held(const std::vector<pmix_proc_t>& procs, pmix_status_t local, double timeout, const Request& request);
  std::optional<std::vector<Rank>> may_come(const std::vector<pmix_proc_t>& procs, const Request& request,
                                            std::function<void()> again);
  void come(char kind, const std::vector<pmix_proc_t>& procs, pmix_status_t local, std::string bytes,
            double timeout, const Request& request);
  // Whether the request waits until the namespace is settled; then `work` is called, and told whether the namespace
  // exists.
  bool postponed(const std::string& nspace, std::function<void(bool is_there)> work);
  [[nodiscard]] std::optional<std::vector<Rank>> numbers_of(const std::vector<pmix_proc_t>& procs) const;
  [[nodiscard]] bool is_of_this_start(const pmix_proc_t& proc) const;

  PeerLink& link_;
  ServerApi& server_;
  const JobFacts& home_;
  Shells shells_;
  Duties duties_;
  Collectives collectives_;
  PublishedData store_;
  std::map<std::uint64_t, Request> requests_;  // by number
  std::uint64_t last_request_ = 0;
  struct Question {
    Rank process = 0;         // its number
    std::uint32_t shell = 0;  // the shell that asks
    std::uint64_t number = 0;
    std::string key;             // the key that has to be there; "": any
    bool has_timeout = false;    // the client has set one
    bool has_committed = false;  // as far as is known
    bool takes_all = false;      // the answer is what is there now
  };
  std::map<std::uintptr_t, Question> questions_;  // not answered yet
  ProcessMap processes_;
  PeerGroups groups_;
  PeerTables tables_;
  std::map<std::string, std::vector<pmix_proc_t>> sets_;                     // by name: all have the same
  std::set<Rank> ended_;                                                     // numbers
  std::map<std::string, std::vector<std::function<void(bool)>>> unsettled_;  // by namespace
  std::map<std::string, std::set<std::uint32_t>> left_;     // by spawned namespace: shells on which some may run
  std::set<std::uint32_t> over_;                            // shells whose processes have all ended
  std::set<std::pair<std::string, pmix_rank_t>> in_store_;  // processes of this shell that have used the store
};

// What the members of a group have put, as libpmix has it. Up to version 5 a node's libpmix passes on bytes of all
// its members, and gets the bytes of all nodes with the answer. From version 6 on it passes on infos of each
// member, and gets those of all nodes as resources, before the answer. What it passes on shows which version it is.

// The data of this node's members, for all nodes; "": none.
[[nodiscard]] std::string group_data_of(const InfoList& directives);

struct GroupData {
  std::string bytes;
  InfoList infos;
};
[[nodiscard]] GroupData group_data_in(const std::string& text);

// The infos as libpmix takes them. `id` 0: the group has no id, and no values that are found by it.
[[nodiscard]] InfoList resources_of(const InfoList& infos, std::uint64_t id);

}  // namespace nacre::pmix
