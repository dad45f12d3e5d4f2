// SPDX-License-Identifier: Apache-2.0
#include "pmi/client.hpp"

#include "base/text.hpp"

namespace nacre::pmi {
namespace {

bool is_visible(char c) { return c > ' ' && c != '\x7f'; }

// `most`: the server's limit, with a NUL; 0: there is none.
Result<void> check_word(std::string_view what, std::string_view word, std::size_t most, bool equals_too) {
  if (word.empty()) return invalid(fmt::format("{} is empty", what));
  if (most > 0 && word.size() >= most) {
    return Error{EMSGSIZE, fmt::format("{} has {} bytes, the server takes {}", what, word.size(), most - 1)};
  }
  bool fits =
      std::all_of(word.begin(), word.end(), [&](char c) { return is_visible(c) && (equals_too || c != '='); });
  if (!fits) return invalid(fmt::format("{} is not one word: {}", what, in_quotes(word)));
  return {};
}

Result<void> check_line(std::string_view what, std::string_view text, std::size_t most) {
  if (text.empty()) return invalid(fmt::format("{} is empty", what));
  if (most > 0 && text.size() >= most) {
    return Error{EMSGSIZE, fmt::format("{} has {} bytes, the server takes {}", what, text.size(), most - 1)};
  }
  if (text.find_first_of(std::string_view("\n\0", 2)) != std::string_view::npos) {
    return invalid(fmt::format("{} is not one line: {}", what, in_quotes(text)));
  }
  return {};
}

// "KEY_0=...", "VALUE_0=...", and their number.
Result<std::string> pairs(const char* count, const char* key, const char* value, const Entries& entries) {
  std::string out = fmt::format("{}={}\n", count, entries.size());
  for (std::size_t i = 0; i < entries.size(); ++i) {
    CHECK_OK(check_line(key, entries[i].first, 0));
    CHECK_OK(check_line(value, entries[i].second, 0));
    out += fmt::format("{}_{}={}\n{}_{}={}\n", key, i, entries[i].first, value, i, entries[i].second);
  }
  return out;
}

// One block of a spawn: the arguments count from 1, as in all clients.
Result<std::string> block(const Spawn& spawn, std::size_t index) {
  const SpawnProgram& program = spawn.programs[index];
  if (program.argv.empty()) return invalid("a program is missing");
  CHECK_OK(check_line("the program", program.argv.front(), 0));
  std::string out = fmt::format("mcmd=spawn\nnprocs={}\nexecname={}\ntotspawns={}\nspawnssofar={}\n",
                                program.processes, program.argv.front(), spawn.programs.size(), index + 1);
  for (std::size_t i = 1; i < program.argv.size(); ++i) {
    CHECK_OK(check_line(fmt::format("argument {}", i), program.argv[i], 0));
    out += fmt::format("arg{}={}\n", i, program.argv[i]);
  }
  out += fmt::format("argcnt={}\n", program.argv.size() - 1);
  out += TRY(pairs("preput_num", "preput_key", "preput_val", spawn.preput));
  out += TRY(pairs("info_num", "info_key", "info_val", program.info));
  out += "endcmd\n";
  if (out.size() > kMaxSpawn) return Error{EMSGSIZE, fmt::format("a program of more than {} bytes", kMaxSpawn)};
  return out;
}

// The server's text for an error, up to the end of its line.
std::string_view words_of(std::string_view line) {
  constexpr std::string_view kKey = " msg=";
  auto at = line.find(kKey);
  return at == std::string_view::npos ? "without a reason" : trim(line.substr(at + kKey.size()));
}

// `value` is the rest of the line. Hydra of MPICH 4.1 and 4.2 writes `found` behind it, Hydra of 4.3 before it.
std::string_view value_in(std::string_view rest) {
  constexpr std::string_view kBehind = " found=TRUE";
  if (rest.ends_with(kBehind)) rest.remove_suffix(kBehind.size());
  return rest;
}

Result<std::vector<int>> codes_of(std::string_view list) {
  std::vector<int> codes;
  for (std::string_view each : split(list, ',')) {
    auto code = parse_i64(each);
    if (!code || *code < INT_MIN || *code > INT_MAX) {
      return invalid(fmt::format("errcodes: expected numbers, got {}", in_quotes(list)));
    }
    codes.push_back(static_cast<int>(*code));
  }
  return codes;
}

Result<std::size_t> size_of(const PmiMessage& message, std::string_view key) {
  auto size = TRY(message.integer(key));
  if (size <= 1) return invalid(fmt::format("{}: expected room for a word, got {}", key, size));
  return static_cast<std::size_t>(size);
}

}  // namespace

// ---- requests ----------------------------------------------------------------------------

Result<void> ClientSession::may_ask(std::string_view request) const {
  if (over_) return invalid(fmt::format("{}: the session is over", request));
  if (is_waiting()) return Error{EBUSY, fmt::format("{}: {} has not been answered yet", request, request_)};
  if (!joined_ && request != "init") return invalid(fmt::format("{}: call init first", request));
  if (joined_ && request == "init") return invalid("init: it has been called before");
  return {};
}

Result<void> ClientSession::may_use_keys(std::string_view request) const {
  CHECK_OK(may_ask(request));
  if (!maxes_) return invalid(fmt::format("{}: call get_maxes first", request));
  if (kvsname_.empty()) return invalid(fmt::format("{}: call get_kvsname first", request));
  return {};
}

Result<std::string> ClientSession::ask(std::string_view request, std::string_view answer, std::string_view rest) {
  CHECK_OK(may_ask(request));
  request_ = request;
  answer_ = answer;
  return fmt::format("cmd={}{}\n", request, rest);
}

Result<std::string> ClientSession::put(std::string_view key, std::string_view value) {
  CHECK_OK(may_use_keys("put"));
  CHECK_OK(in("put", check_word("the key", key, maxes_->key, false)));
  CHECK_OK(in(fmt::format("put: {}", key), check_line("the value", value, maxes_->value)));
  return ask("put", "put_result", fmt::format(" kvsname={} key={} value={}", kvsname_, key, value));
}

Result<std::string> ClientSession::get(std::string_view key) {
  CHECK_OK(may_use_keys("get"));
  CHECK_OK(in("get", check_word("the key", key, maxes_->key, false)));
  return ask("get", "get_result", fmt::format(" kvsname={} key={}", kvsname_, key));
}

Result<std::string> ClientSession::publish(std::string_view service, std::string_view port) {
  CHECK_OK(may_ask("publish_name"));
  CHECK_OK(in("publish_name", check_word("the service", service, 0, false)));
  CHECK_OK(in("publish_name", check_word("the port", port, maxes_ ? maxes_->value : 0, true)));
  return ask("publish_name", "publish_result", fmt::format(" service={} port={}", service, port));
}

Result<std::string> ClientSession::lookup(std::string_view service) {
  CHECK_OK(may_ask("lookup_name"));
  CHECK_OK(in("lookup_name", check_word("the service", service, 0, false)));
  return ask("lookup_name", "lookup_result", fmt::format(" service={}", service));
}

Result<std::string> ClientSession::unpublish(std::string_view service) {
  CHECK_OK(may_ask("unpublish_name"));
  CHECK_OK(in("unpublish_name", check_word("the service", service, 0, false)));
  return ask("unpublish_name", "unpublish_result", fmt::format(" service={}", service));
}

Result<std::string> ClientSession::spawn(const Spawn& spawn) {
  CHECK_OK(may_ask("spawn"));
  if (spawn.programs.empty()) return invalid("spawn: expected a program");
  std::string out;
  for (std::size_t i = 0; i < spawn.programs.size(); ++i) out += TRY(in("spawn", block(spawn, i)));
  spawned_ = spawn.processes();
  request_ = "spawn";
  answer_ = "spawn_result";
  return out;
}

std::string ClientSession::abort(int exit_code, std::string_view message) {
  over_ = true;
  request_.clear();
  std::string out = fmt::format("cmd=abort exitcode={}", exit_code);
  if (!message.empty()) out += " message=";
  for (char c : message) {
    if (c == ' ' || c == '\\') out += '\\';
    out += c == '\n' || c == '\0' ? '_' : c;
  }
  return out + "\n";
}

// ---- replies -----------------------------------------------------------------------------

Error ClientSession::broken(std::string what) {
  over_ = true;
  std::string where = request_.empty() ? "the PMI server" : request_;
  request_.clear();
  return Error{EPROTO, fmt::format("{}: {}", where, what)};
}

Result<std::optional<ClientSession::Reply>> ClientSession::receive(std::string_view bytes) {
  if (over_) return std::optional<Reply>();
  if (bytes.empty()) return broken("the server has closed the connection");
  framer_.add(bytes);
  auto frame = framer_.next();
  if (!frame) return broken(frame.error().message);
  if (!*frame) return std::optional<Reply>();
  std::string line((**frame).text);
  if (!is_waiting()) return broken(fmt::format("not asked for: {}", in_quotes(line)));
  if (!framer_.rest().empty()) return broken(fmt::format("more than one reply: {}", in_quotes(framer_.rest())));
  auto reply = read(line);
  request_.clear();
  if (!reply) return Error(reply.error());
  return std::optional(std::move(*reply));
}

Result<ClientSession::Reply> ClientSession::read(std::string_view line) {
  auto parsed = PmiMessage::parse_line(line);
  if (!parsed) return broken(parsed.error().message);
  const PmiMessage& message = *parsed;
  if (message.command() != answer_) return broken(fmt::format("expected {}, got {}", answer_, in_quotes(line)));
  // Slurm only says by `info` that a name does not exist.
  bool refused = message.find("rc").value_or("0") != "0" || message.find("info") == "fail";
  if (request_ == "init") {
    if (refused || message.find("pmi_version") != "1")
      return broken(fmt::format("the server refuses PMI 1.1: {}", in_quotes(line)));
    joined_ = true;
  }
  if (refused) return Error{EREMOTEIO, fmt::format("{}: refused by the server: {}", request_, words_of(line))};
  if (request_ == "finalize") over_ = true;
  Reply reply;
  reply.request = request_;
  auto read = read_fields(message, reply);
  if (!read) return broken(read.error().message);
  return reply;
}

Result<void> ClientSession::read_fields(const PmiMessage& message, Reply& reply) {
  if (request_ == "get_maxes") {
    maxes_ = Maxes{TRY(size_of(message, "kvsname_max")), TRY(size_of(message, "keylen_max")),
                   TRY(size_of(message, "vallen_max"))};
  } else if (request_ == "get_my_kvsname") {
    kvsname_ = TRY(message.word("kvsname"));
    reply.text = kvsname_;
  } else if (request_ == "get_appnum") {
    reply.number = TRY(message.integer("appnum"));
  } else if (request_ == "get_universe_size") {
    reply.number = TRY(message.integer("size"));
  } else if (request_ == "get") {
    reply.text = value_in(TRY(message.text("value")));
  } else if (request_ == "lookup_name") {
    reply.text = TRY(message.word("port"));
  } else if (request_ == "spawn") {
    // Some servers give no codes if all processes run.
    auto codes = message.find("errcodes");
    reply.error_codes = codes ? TRY(codes_of(*codes)) : std::vector<int>(spawned_, 0);
    if (reply.error_codes.size() != spawned_) {
      return invalid(fmt::format("{} errcodes for {} processes", reply.error_codes.size(), spawned_));
    }
  }
  return {};
}

}  // namespace nacre::pmi
