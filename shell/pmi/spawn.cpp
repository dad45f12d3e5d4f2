// SPDX-License-Identifier: Apache-2.0
#include "pmi/spawn.hpp"

#include "base/text.hpp"

namespace nacre::pmi {
namespace {

// The names of the same things in the two protocols.
struct Keys {
  std::string_view processes, program, arguments, argument, preputs, preput_key, preput_value, infos, info_key,
      info_value;
};

constexpr Keys kV1 = {"nprocs",      "execname",    "argcnt",   "arg",       "preput_num",
                      "preput_key_", "preput_val_", "info_num", "info_key_", "info_val_"};
constexpr Keys kV2 = {"maxprocs", "subcmd", "argc",         "argv",    "preputcount",
                      "ppkey",    "ppval",  "infokeycount", "infokey", "infoval"};

bool is_numbered(std::string_view key, std::string_view stem) {
  return key.size() > stem.size() && key.starts_with(stem) &&
         key.find_first_not_of("0123456789", stem.size()) == std::string_view::npos;
}

Error wrong(std::string_view key, std::string_view what) {
  return invalid(fmt::format("spawn: {}: {}", key, what));
}

Result<std::uint32_t> number_of(const PmiMessage::Field& field, std::uint32_t most) {
  auto number = parse_u64(field.value);
  if (!number || *number > most) {
    return wrong(field.key, fmt::format("expected a number up to {}, got {}", most, in_quotes(field.value)));
  }
  return static_cast<std::uint32_t>(*number);
}

// Numbered fields have to come in the order of their numbers, and a value after its key.
class Reader {
 public:
  Reader(const Keys& keys, Spawn& spawn) : keys_(keys), spawn_(spawn) {}

  void begin_program() {
    spawn_.programs.emplace_back().argv.emplace_back();
    arguments_ = infos_ = 0;
  }

  Result<void> take(const PmiMessage::Field& field) {
    if (is_numbered(field.key, keys_.preput_key)) return add(spawn_.preput, field);
    if (is_numbered(field.key, keys_.preput_value)) return complete(spawn_.preput, field);
    if (field.key == keys_.preputs) return count(field, preputs_);
    if (spawn_.programs.empty()) return {};
    SpawnProgram& program = spawn_.programs.back();
    if (field.key == keys_.processes) {
      program.processes = TRY(number_of(field, kMaxSpawned));
    } else if (field.key == keys_.program) {
      program.argv.front() = field.value;
    } else if (is_numbered(field.key, keys_.argument)) {
      if (program.argv.size() > kMaxSpawnItems) return wrong(field.key, "too many arguments");
      program.argv.emplace_back(field.value);
    } else if (field.key == keys_.arguments) {
      return count(field, arguments_);
    } else if (field.key == keys_.infos) {
      return count(field, infos_);
    } else if (is_numbered(field.key, keys_.info_key)) {
      return add(program.info, field);
    } else if (is_numbered(field.key, keys_.info_value)) {
      return complete(program.info, field);
    }
    return {};
  }

  // Checks that everything that was announced has come.
  Result<void> end_program() {
    const SpawnProgram& program = spawn_.programs.back();
    if (program.argv.front().empty()) return wrong(keys_.program, "expected a program");
    CHECK_OK(same(keys_.arguments, arguments_, program.argv.size() - 1));
    CHECK_OK(same(keys_.infos, infos_, program.info.size()));
    if (spawn_.processes() > kMaxSpawned) return wrong(keys_.processes, fmt::format("more than {}", kMaxSpawned));
    return {};
  }
  Result<void> end_preput() { return same(keys_.preputs, preputs_, spawn_.preput.size()); }

 private:
  static Result<void> count(const PmiMessage::Field& field, std::uint32_t& out) {
    out = TRY(number_of(field, kMaxSpawnItems));
    return {};
  }
  static Result<void> add(Entries& entries, const PmiMessage::Field& field) {
    if (entries.size() >= kMaxSpawnItems) return wrong(field.key, "too many");
    entries.emplace_back(field.value, "");
    return {};
  }
  static Result<void> complete(Entries& entries, const PmiMessage::Field& field) {
    if (entries.empty()) return wrong(field.key, "a value without a key");
    entries.back().second = field.value;
    return {};
  }
  static Result<void> same(std::string_view key, std::uint32_t announced, std::size_t found) {
    if (announced == found) return {};
    return wrong(key, fmt::format("{} were announced, {} came", announced, found));
  }

  const Keys& keys_;
  Spawn& spawn_;
  std::uint32_t arguments_ = 0;
  std::uint32_t infos_ = 0;
  std::uint32_t preputs_ = 0;
};

}  // namespace

const std::string* SpawnProgram::find_info(std::string_view key) const {
  auto found = std::find_if(info.begin(), info.end(), [&](const auto& each) { return each.first == key; });
  return found != info.end() ? &found->second : nullptr;
}

std::uint32_t Spawn::processes() const {
  std::uint32_t sum = 0;
  for (const SpawnProgram& each : programs) sum += each.processes;
  return sum;
}

std::uint32_t Spawn::program_of(std::uint32_t rank) const {
  std::uint32_t program = 0;
  while (rank >= programs[program].processes) rank -= programs[program++].processes;
  return program;
}

std::string code_list(const std::vector<int>& codes) {
  constexpr std::size_t kMost = 800;  // bytes
  std::string list = fmt::format("{}", fmt::join(codes, ","));
  bool all_run = std::all_of(codes.begin(), codes.end(), [](int code) { return code == 0; });
  return all_run && list.size() > kMost ? "" : list;
}

Result<bool> add_spawn_block(const PmiMessage& message, Spawn& spawn) {
  auto total = TRY(message.integer("totspawns"));
  auto so_far = TRY(message.integer("spawnssofar"));
  if (so_far != static_cast<std::int64_t>(spawn.programs.size()) + 1 || so_far > total) {
    return wrong("spawnssofar", fmt::format("block {} of {} is out of turn", so_far, total));
  }
  if (total > kMaxSpawned) return wrong("totspawns", fmt::format("more than {}", kMaxSpawned));
  Entries before = std::exchange(spawn.preput, {});
  Reader reader(kV1, spawn);
  reader.begin_program();
  for (const PmiMessage::Field& field : message.fields()) CHECK_OK(reader.take(field));
  CHECK_OK(reader.end_program());
  CHECK_OK(reader.end_preput());
  if (!message.find(kV1.preputs)) spawn.preput = std::move(before);
  return so_far == total;
}

Result<Spawn> read_spawn(const PmiMessage& message) {
  Spawn spawn;
  Reader reader(kV2, spawn);
  auto programs = TRY(message.integer("ncmds"));
  for (const PmiMessage::Field& field : message.fields()) {
    if (field.key == kV2.program) {
      if (!spawn.programs.empty()) CHECK_OK(reader.end_program());
      reader.begin_program();
    }
    CHECK_OK(reader.take(field));
  }
  if (spawn.programs.empty() || programs != static_cast<std::int64_t>(spawn.programs.size())) {
    return wrong("ncmds", fmt::format("{} were announced, {} came", programs, spawn.programs.size()));
  }
  CHECK_OK(reader.end_program());
  CHECK_OK(reader.end_preput());
  return spawn;
}

}  // namespace nacre::pmi
