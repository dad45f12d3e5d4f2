// SPDX-License-Identifier: Apache-2.0
#include "plugins/pmi/spawn_order.hpp"

#include <sys/resource.h>

#include "base/text.hpp"
#include "pmi/key_exchange.hpp"

namespace nacre::plugins {
namespace {

constexpr std::string_view kPreput = "preput ";  // before a key
constexpr std::string_view kInfo = "info ";      // before a key
constexpr std::string_view kLimit = "limit ";    // before its number

using Limits = std::vector<task::ChildSetup::Limit>;

Error malformed_order(std::string_view key) {
  return Error{EPROTO, fmt::format("an order to spawn: {} is wrong", in_quotes(key))};
}

Result<std::uint64_t> order_number(std::string_view key, std::string_view value, std::uint64_t most) {
  auto number = parse_u64(value);
  if (!number || *number > most) return malformed_order(key);
  return *number;
}

Result<task::ChildSetup::Limit> limit_in_order(std::string_view key, std::string_view value) {
  auto resource = order_number(key, key.substr(kLimit.size()), RLIM_NLIMITS - 1);
  auto parts = split(value, ' ');
  if (!resource || parts.size() != 2) return malformed_order(key);
  rlimit limit{};
  limit.rlim_cur = TRY(order_number(key, parts[0], RLIM_INFINITY));
  limit.rlim_max = TRY(order_number(key, parts[1], RLIM_INFINITY));
  return task::ChildSetup::Limit{static_cast<int>(*resource), limit};
}

// Visits each member of the setup that all processes of the job have in common with a task.
void common_setup(const auto& visit, auto&... setup) {
  visit(kLimit, setup.limits...);
  task::Settings::for_each([&](auto setting) { visit(setting.kName, setup.settings.of(setting)...); });
  visit("session", setup.new_session...);
}

// The members of an order in the order in which they are written, except its programs, which come last.
void members(const auto& visit, auto& order) {
  visit("start", order.start);
  visit("shell", order.shell);
  visit("request", order.request);
  visit("task", order.task);
  visit("spawner", order.spawner);
  visit("library", order.library);
  visit("client", order.client);
  common_setup(visit, order.setup);
  visit(kPreput, order.spawn.preput);
}

template <typename T>
void encode_member(std::string_view key, const T& value, pmi::Entries& out) {
  if constexpr (std::is_same_v<T, bool>) {
    if (value) out.emplace_back(key, "");
  } else if constexpr (std::is_integral_v<T>) {
    out.emplace_back(key, fmt::format_int(value).str());
  } else if constexpr (std::is_same_v<T, std::string>) {
    out.emplace_back(key, value);
  } else if constexpr (std::is_same_v<T, pmi::Entries>) {
    for (const auto& [name, text] : value) out.emplace_back(fmt::format("{}{}", key, name), text);
  } else if constexpr (std::is_same_v<T, Limits>) {
    for (const auto& [resource, limit] : value)
      out.emplace_back(fmt::format("{}{}", key, resource), fmt::format("{} {}", limit.rlim_cur, limit.rlim_max));
  } else if (value) {
    encode_member(key, *value, out);
  }
}

// Reads the entry `name` if it is this member; returns whether it is.
template <typename T>
Result<bool> decode_member(std::string_view key, std::string_view name, std::string& text, T& value) {
  constexpr bool kIsList = std::is_same_v<T, pmi::Entries> || std::is_same_v<T, Limits>;
  if (kIsList ? !name.starts_with(key) : name != key) return false;
  if constexpr (std::is_same_v<T, bool>) {
    value = true;
  } else if constexpr (std::is_integral_v<T>) {
    value = static_cast<T>(TRY(order_number(name, text, std::numeric_limits<T>::max())));
  } else if constexpr (std::is_same_v<T, std::string>) {
    value = std::move(text);
  } else if constexpr (std::is_same_v<T, pmi::Entries>) {
    value.emplace_back(name.substr(key.size()), std::move(text));
  } else if constexpr (std::is_same_v<T, Limits>) {
    value.push_back(TRY(limit_in_order(name, text)));
  } else {
    return decode_member(key, name, text, value.emplace());
  }
  return true;
}

// Returns whether the entry belonged to the programs, which come last.
Result<bool> decode_program(const std::string& key, std::string& value, pmi::Spawn& spawn) {
  if (key == "program") {
    auto& program = spawn.programs.emplace_back();
    program.processes = static_cast<std::uint32_t>(TRY(order_number(key, value, pmi::kMaxSpawned)));
    return true;
  }
  if (spawn.programs.empty()) return false;
  pmi::SpawnProgram& program = spawn.programs.back();
  if (key == "argument") {
    program.argv.push_back(std::move(value));
  } else if (key.starts_with(kInfo)) {
    program.info.emplace_back(key.substr(kInfo.size()), std::move(value));
  } else {
    return false;
  }
  return true;
}

}  // namespace

std::string SpawnOrder::encode() const {
  pmi::Entries out;
  auto encode = [&](std::string_view key, const auto& value) {
    bool is_left_out = !by_pmix() && (key == "library" || key == "client");
    if (!is_left_out) encode_member(key, value, out);
  };
  members(encode, *this);
  for (const pmi::SpawnProgram& program : spawn.programs) {
    encode("program", program.processes);
    for (const std::string& argument : program.argv) encode("argument", argument);
    encode(kInfo, program.info);
  }
  return pmi::encode_entries(out);
}

Result<SpawnOrder> SpawnOrder::decode(std::string_view bytes) {
  SpawnOrder out;
  for (auto& [key, value] : TRY(pmi::decode_entries(bytes))) {
    Result<bool> is_known = false;
    auto decode = [&, &name = key, &text = value](std::string_view member, auto& to) {
      if (is_known && !*is_known) is_known = decode_member(member, name, text, to);
    };
    members(decode, out);
    if (!TRY(is_known) && !TRY(decode_program(key, value, out.spawn))) return malformed_order(key);
  }
  if (!out.library.empty() && !out.by_pmix()) return malformed_order("library");
  for (const pmi::SpawnProgram& program : out.spawn.programs) {
    if (program.argv.empty()) return malformed_order("program");
  }
  if (out.spawn.programs.empty() || out.spawn.processes() > pmi::kMaxSpawned) return malformed_order("program");
  return out;
}

void copy_common_setup(const task::ChildSetup& model, task::ChildSetup& out) {
  common_setup([](std::string_view, const auto& from, auto& to) { to = from; }, model, out);
}

// ---- spawn places -----------------------------------------------------------------------

namespace {

using Rooms = std::vector<SpawnRoom*>;  // the room of the asking process's shell comes first

Rooms in_turn(std::vector<SpawnRoom>& rooms, std::uint32_t asker) {
  Rooms out;
  for (SpawnRoom& each : rooms) out.push_back(&each);
  auto first = std::find_if(out.begin(), out.end(), [&](const SpawnRoom* each) { return each->shell >= asker; });
  std::rotate(out.begin(), first, out.end());
  return out;
}

// `hosts`: where to run, separated by commas.
Result<Rooms> on_hosts(const Rooms& all, std::string_view key, std::string_view hosts) {
  Rooms out;
  for (std::string_view host : split(hosts, ',')) {
    host = trim(host);
    if (host == "localhost") host = all.front()->host;
    bool is_known = false;
    for (SpawnRoom* each : all) {
      if (each->host != host) continue;
      is_known = true;
      if (std::find(out.begin(), out.end(), each) == out.end()) out.push_back(each);
    }
    if (is_known) continue;
    value::Hostlist known;
    for (const SpawnRoom* each : all) {
      if (!each->host.empty()) known.append(each->host);
    }
    known.uniq();
    return invalid(
        fmt::format("info key {}: {} is no host of the job, which has {}", key, in_quotes(host), known.str()));
  }
  return out;
}

Result<Rooms> rooms_for(const pmi::SpawnProgram& program, const Rooms& all) {
  Rooms out = all;
  for (std::string_view key : {"host", "hosts"}) {
    if (const std::string* hosts = program.find_info(key)) out = TRY(on_hosts(all, key, *hosts));
  }
  std::erase_if(out, [](const SpawnRoom* each) { return !each->free; });
  if (out.empty()) {
    return Error{ECANCELED, fmt::format("{}: no shell that may run it takes processes any more",
                                        in_quotes(program.argv.front()))};
  }
  return out;
}

void place_program(const Rooms& rooms, std::uint32_t processes, std::vector<std::uint32_t>& out) {
  std::vector<std::uint32_t> counts(rooms.size());
  for (std::size_t i = 0; i < rooms.size(); ++i) {
    counts[i] = std::min(*rooms[i]->free, processes);
    *rooms[i]->free -= counts[i];
    processes -= counts[i];
  }
  auto shells = static_cast<std::uint32_t>(rooms.size());
  for (std::uint32_t i = 0; i < shells; ++i) counts[i] += processes / shells + (i < processes % shells ? 1 : 0);
  for (std::size_t i = 0; i < rooms.size(); ++i) out.insert(out.end(), counts[i], rooms[i]->shell);
}

}  // namespace

Result<std::vector<std::uint32_t>> place_spawn(const pmi::Spawn& spawn, std::vector<SpawnRoom> rooms,
                                               std::uint32_t asker) {
  if (spawn.processes() == 0) return invalid("expected one process or more");
  Rooms all = in_turn(rooms, asker);
  std::vector<std::uint32_t> out;
  for (const pmi::SpawnProgram& program : spawn.programs) {
    place_program(TRY(rooms_for(program, all)), program.processes, out);
  }
  return out;
}

std::optional<std::uint32_t> universe_of_spawn(const std::vector<std::uint32_t>& places,
                                               const std::vector<SpawnRoom>& rooms) {
  std::uint64_t left = 0;
  for (const SpawnRoom& each : rooms) {
    const auto placed = static_cast<std::uint64_t>(std::count(places.begin(), places.end(), each.shell));
    const std::uint64_t free = each.free.value_or(0);
    left += free - std::min(free, placed);
  }
  return left > 0 ? std::optional(static_cast<std::uint32_t>(places.size() + left)) : std::nullopt;
}

value::Idset ranks_placed_on(const std::vector<std::uint32_t>& places, std::uint32_t shell) {
  value::Idset out;
  for (std::uint32_t rank = 0; rank < places.size(); ++rank) {
    if (places[rank] == shell) out.insert(rank);
  }
  return out;
}

// ---- spawn rounds -----------------------------------------------------------------------

namespace {

constexpr char kNoRoom = '-';   // given instead of how many processes a shell has room for
constexpr char kStarted = '+';  // its processes, if it has some, have started
constexpr char kFailed = '!';   // before the error: its number, a blank, and its text

std::string room_text(const std::optional<std::uint32_t>& free) {
  return free ? fmt::format_int(*free).str() : std::string(1, kNoRoom);
}

std::string start_text(const Result<void>& started) {
  if (started) return {kStarted};
  return fmt::format("{}{} {}", kFailed, started.error().code, started.error().message);
}

Error read_failure(std::string_view text, const std::string& where) {
  text.remove_prefix(1);
  const std::size_t blank = std::min(text.find(' '), text.size());
  auto code = parse_u64(text.substr(0, blank));
  if (!code || *code > INT32_MAX) return invalid(fmt::format("{}{}", text, where));
  return Error{static_cast<int>(*code), fmt::format("{}{}", text.substr(std::min(blank + 1, text.size())), where)};
}

}  // namespace

std::string SpawnRound::name() const { return fmt::format("pmi.spawn.{}.{}", order.start, number); }

bool SpawnRound::has(std::uint32_t shell) const {
  return std::find(places.begin(), places.end(), shell) != places.end();
}

void SpawnRounds::begin(const PmiStart& start, bool takes_part) {
  start_ = start.number;
  last_ = start.last;
  takes_part_ = takes_part;
  count_ = 0;
}

Result<void> SpawnRounds::announce(SpawnOrder order) {
  order.start = start_;
  order.shell = host_.job().shell_rank;
  return host_.announce(kTopic, order.encode());
}

void SpawnRounds::announced(std::string_view bytes) {
  if (!takes_part_) return;
  auto order = SpawnOrder::decode(bytes);
  if (!order) return host_.log().log(Level::warn, "pmi", "{}", order.error().message);
  if (order->start != start_ || order->shell > last_) return;
  auto open = std::make_unique<Open>();
  open->round = {*std::move(order), ++count_, last_, {}};
  open_.push_back(std::move(open));
  pump_.run([this] { return step(); });
}

bool SpawnRounds::step() {
  if (open_.empty() || open_.front()->waits) return false;
  if (open_.front()->next == Step::over)
    open_.pop_front();
  else
    perform(*open_.front());
  return true;
}

void SpawnRounds::perform(Open& open) {
  switch (open.next) {
    case Step::begin:
      open.next = Step::rooms;
      open.rooms = gather(open, "room", room_text(callbacks_.on_room()));
      break;
    case Step::rooms:
      place(open);
      open.next = open.outcome ? Step::start : Step::settle;
      break;
    case Step::start: {
      open.next = Step::settle;
      open.starts = gather(open, "started", start_text(callbacks_.on_start(open.round)));
      break;
    }
    case Step::settle:
      open.next = Step::over;
      if (open.outcome) open.outcome = outcome_of(open);
      callbacks_.on_settled(open.round, open.outcome);
      break;
    case Step::over: break;
  }
}

plugin::Registration SpawnRounds::gather(Open& open, std::string_view what, std::string mine) {
  open.waits = true;
  return host_.gather_up_to(open.round.last, fmt::format("{}.{}", open.round.name(), what), std::move(mine),
                            [this, &open](Result<plugin::Gathered> gathered) {
                              open.waits = false;
                              open.gathered = std::move(gathered);
                              pump_.run([this] { return step(); });
                            });
}

// Lost shells have given nothing, so they have no room.
void SpawnRounds::place(Open& open) {
  open.outcome = {};
  if (!open.gathered) return void(open.outcome = open.gathered.error());
  std::vector<SpawnRoom> rooms;
  for (std::uint32_t shell = 0; shell <= open.round.last; ++shell)
    rooms.push_back({shell, host_.job().resources.nodes[shell].hostname, std::nullopt});
  for (const auto& [text, shells] : *open.gathered) {
    auto free = parse_u64(text);
    for (std::uint32_t shell : shells.ids()) {
      if (free && shell < rooms.size()) rooms[shell].free = static_cast<std::uint32_t>(*free);
    }
  }
  auto places = place_spawn(open.round.order.spawn, rooms, open.round.order.shell);
  if (!places) return void(open.outcome = std::move(places).error());
  open.round.places = *std::move(places);
  open.round.universe = universe_of_spawn(open.round.places, rooms);
}

// All shells with processes have started them, and the requester is still there.
Result<void> SpawnRounds::outcome_of(const Open& open) const {
  if (!open.gathered) return open.gathered.error();
  const SpawnRound& round = open.round;
  auto on = [&](std::uint32_t shell) { return host_.job().resources.nodes[shell].on(); };
  value::Idset started;
  for (const auto& [text, shells] : *open.gathered) {
    if (text.empty() || text.front() != kFailed) {
      started.insert(shells);
      continue;
    }
    bool is_askers = shells.contains(round.order.shell);
    return read_failure(text, is_askers ? "" : on(*shells.first()));
  }
  for (std::uint32_t shell = 0; shell <= round.last; ++shell) {
    if (!started.contains(shell) && (shell == round.order.shell || round.has(shell)))
      return Error{ECANCELED, fmt::format("shell {}{} is lost", shell, on(shell))};
  }
  return {};
}

}  // namespace nacre::plugins
