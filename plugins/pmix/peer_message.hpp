// SPDX-License-Identifier: Apache-2.0
//
// What the plugin of one shell sends to the plugins of all shells of the job, as the payload of an event. All
// receive the same messages in the same order, and come to the same results.
#pragma once

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace nacre::pmix {

using Rank = std::uint32_t;

struct PeerMessage {
  enum class Kind : std::uint8_t {
    part,  // of a collective: its name, bytes; with a status
    ask,   // asks shell `to` for what process `rank`, its number in ProcessMap, has committed, once that has a key,
           // or "" for any; `status`: the client's timeout in seconds, or 0
    answer,     // answers question `number` of shell `to`: bytes; with a status
    publish,    // the publisher's namespace, infos; it is `rank`
    look_up,    // the requester's namespace, directives, keys...; it is `rank`
    give_up,    // shell `shell` withdraws its question `number`
    unpublish,  // the requester's namespace, directives, keys...; it is `rank`
    event,      // code `status`, for the others: the source's namespace, infos; of `rank`; `number`: the range
    signal,     // signal `number` for the processes with these numbers
    ended,      // of that namespace process `rank` has ended, or PMIX_RANK_WILDCARD: all that this shell has of it
    over,       // all processes of this shell have ended, and it serves none any more
    group,      // part of what members of a group do together: its name, bytes, wishes; `number`: of the part
    leave,      // shell `shell` waits no longer for what its part `number` is for: its name
    gone,       // shell `to` is lost
    list,       // asks for the rows of a namespace's processes: its name
    rows,       // answers question `number` of shell `to`: a row each
    set,  // defines a set of processes: its name, and the numbers of its members, in the texts' order; request
          // `number` of shell `shell`
  };
  static constexpr std::uint8_t kKinds = 17;

  Kind kind = Kind::over;
  std::uint64_t start = 1;  // the start of the tasks that it is about, from 1
  std::uint32_t shell = 0;  // the sender
  std::uint32_t to = 0;
  std::uint64_t number = 0;  // of a question: from 1, counted by each shell
  Rank rank = 0;
  std::int32_t status = 0;
  std::vector<std::string> texts;

  bool operator==(const PeerMessage&) const = default;
};

// Numbers have the highest byte first; each text comes after its length in 4 bytes.
std::string encode(const PeerMessage& message);
// None: the bytes are no message.
std::optional<PeerMessage> decode(std::string_view bytes);

// Where all processes of the job are: its tasks, and those of each spawned namespace. Each process has its own
// number: a task its rank, a spawned process its rank plus the offset of its namespace. All nodes add the same
// namespaces in the same order, so numbers mean the same on all nodes.
class ProcessMap {
 public:
  struct Place {
    const std::string* nspace = nullptr;
    Rank rank = 0;
    std::uint32_t node = 0;
  };
  using RanksByNode = std::map<std::uint32_t, std::vector<Rank>>;

  void add(const std::string& nspace, Rank offset, const RanksByNode& nodes);

  [[nodiscard]] bool knows(const std::string& nspace) const { return offsets_.count(nspace) > 0; }
  // The numbers of one process, or of all of a namespace; empty: it is not known.
  [[nodiscard]] std::optional<Rank> number_of(const std::string& nspace, Rank rank) const;
  [[nodiscard]] std::vector<Rank> numbers_of(const std::string& nspace) const;
  [[nodiscard]] const Place* find(Rank number) const;  // nullptr: it is not known
  [[nodiscard]] std::vector<Rank> numbers_on(std::uint32_t node) const;
  [[nodiscard]] std::set<std::uint32_t> nodes_of(const std::string& nspace) const;

 private:
  std::map<std::string, Rank> offsets_;
  std::map<Rank, Place> places_;
};

// The processes of a namespace, as a client asks for them: this shell knows its own processes, and asks the other
// shells for theirs. A shell that does not answer in time, or is lost, is left out.
struct ProcessRow {
  Rank rank = 0;
  std::int32_t pid = 0;
  std::uint8_t state = 0;  // a pmix_proc_state_t
  std::int32_t exit_code = 0;
  std::string command;

  bool operator==(const ProcessRow&) const = default;
};

// Numbers and the command, with a space between them: "3 4711 2 0 ./a.out".
std::string text_of(const ProcessRow& row);
std::optional<ProcessRow> row_in(std::string_view text);

class ProcessTables {
 public:
  using Rows = std::map<Rank, ProcessRow>;
  using Done = std::function<void(const Rows& rows)>;

  // Returns the number of the question, for the shells that are asked.
  std::uint64_t ask(std::set<std::uint32_t> shells, Done done);
  void answered(std::uint32_t shell, std::uint64_t number, const std::vector<std::string>& rows);
  void lost(std::uint32_t shell);
  void give_up(std::uint64_t number);  // does nothing if the question was answered
  void give_up_all();

 private:
  struct Table {
    std::set<std::uint32_t> asked;
    Rows rows;
    Done done;
  };
  std::map<std::uint64_t, Table> tables_;
  std::uint64_t last_ = 0;
};

// Ranks and hosts as text.

// Ascending ranks, "0-3,7", and back; none if the text is no such list.
std::string text_of(const std::vector<Rank>& ranks);
std::optional<std::vector<Rank>> ranks_in(std::string_view text);

// Several shells may be on one host, but libpmix identifies a node by its name: so all but the first of equal names
// are changed.
std::vector<std::string> distinct(std::vector<std::string> names);

// The tasks of a job may start again, all of them together: then PMIx begins anew, and messages about a former
// start are of no use to the next. Shells begin a start one after the other, so messages about it may come before
// this shell has begun it.
class StartFilter {
 public:
  // The message itself, if it is about the start that has begun. A message about a later start is kept; one about a
  // former start is dropped.
  std::optional<PeerMessage> pass(PeerMessage message);

  // This start will come: messages about earlier ones are dropped, except those about the start that has begun.
  void await(std::uint64_t start);
  // The start begins here. Returns the messages that were kept for it, in the order in which they came.
  std::vector<PeerMessage> begin(std::uint64_t start);

  [[nodiscard]] std::uint64_t current() const { return current_; }  // 0: none has begun

 private:
  std::uint64_t current_ = 0;
  std::uint64_t next_ = 1;  // the lowest of the later starts
  std::vector<PeerMessage> kept_;
};

// Operations in which processes of several nodes take part together. A node gives its part when all its
// participants have come; when each such node has given it, all nodes get all parts. A node whose processes have
// ended is not waited for. Ranks are numbers of ProcessMap.
//
// All nodes pass in the same messages in the same order, so each comes to the same result.
class Collectives {
 public:
  // `status`: the first status of a part that is not 0; `all`: the nodes' parts, in the order of the nodes.
  using Done = std::function<void(int status, const std::string& all)>;

  // The ranks on each node, and the index of this node.
  Collectives(std::vector<std::vector<Rank>> nodes, std::size_t here);

  // Adds ranks of a spawned namespace.
  void add(std::size_t node, const std::vector<Rank>& ranks);

  // Collectives of the same kind and the same participants come one after the other. `ranks` empty: all
  // that there were at the start.
  static std::string name_of(char kind, const std::vector<Rank>& ranks);

  // This node's processes have come, and its part is being sent to all: `done` is called when all parts have been
  // received.
  void enter(const std::string& name, Done done);

  // A part has been received. Nothing is kept for collectives in which this node has no part.
  void part(std::size_t node, const std::string& name, int status, std::string bytes);
  void ended(Rank rank);
  void over(std::size_t node);

 private:
  struct Part {
    int status = 0;
    std::string bytes;
  };
  struct Collective {
    std::map<std::size_t, std::vector<Rank>> participants;  // by node
    std::map<std::size_t, std::deque<Part>> parts;          // by node; one for each time that its participants came
    std::deque<Done> waiting;
  };

  Collective* find(const std::string& name);  // nullptr: there is none, or this node takes no part
  [[nodiscard]] bool is_missing(const Collective& collective, std::size_t node) const;
  static bool is_idle(const Collective& collective);
  bool complete(Collective& collective);
  void look_at_all();

  std::vector<std::vector<Rank>> nodes_;
  std::map<Rank, std::size_t> node_of_;
  Rank first_added_ = 0;  // the ranks of the tasks are below
  std::size_t here_;
  std::set<Rank> ended_;
  std::map<std::string, Collective> collectives_;
};

}  // namespace nacre::pmix
