// SPDX-License-Identifier: Apache-2.0
#include "launch/record.hpp"

#include "base/program.hpp"
#include "base/text.hpp"
#include "group/directory.hpp"
#include "group/first_words.hpp"
#include "launch/own_sockets.hpp"
#include "transport/address.hpp"
#include "transport/secret.hpp"
#include "wire/json.hpp"

namespace nacre::launch {
namespace {

using group::Rank;

constexpr const char* kWhere = "the launch record";
constexpr std::array<std::string_view, 3> kDetaching = {"", "request", "start"};
constexpr std::size_t kMaxAddresses = 1024;  // bytes, of one shell

constexpr auto kSomeWords = [](const JsonAt& at, const std::vector<std::string>& words) -> Result<void> {
  if (words.size() > LaunchRecord::kMaxWords)
    return at.error(fmt::format("more than {} words", LaunchRecord::kMaxWords));
  for (const std::string& word : words) {
    if (word.size() > LaunchRecord::kMaxWord || word.find('\0') != std::string::npos) {
      return at.error(fmt::format("expected words of at most {} bytes without NUL", LaunchRecord::kMaxWord));
    }
  }
  return {};
};

constexpr auto kTime = [](const JsonAt& at, double time) -> Result<void> {
  if (time > 0 && time <= LaunchRecord::kMaxTimeout) return {};
  return at.expected(fmt::format("seconds, more than 0 and at most {}", LaunchRecord::kMaxTimeout));
};

constexpr auto kKnownVariables = [](const JsonAt& at,
                                    const std::map<std::string, std::string>& all) -> Result<void> {
  constexpr const auto& kNames = LaunchRecord::kVariables;
  for (const auto& [name, value] : all) {
    if (std::find(kNames.begin(), kNames.end(), name) == kNames.end())
      return TRY(at.at(name)).error(fmt::format("expected one of {}", fmt::join(kNames, ", ")));
    if (value.size() > LaunchRecord::kMaxWord || value.find('\0') != std::string::npos)
      return TRY(at.at(name)).error(fmt::format("expected at most {} bytes without NUL", LaunchRecord::kMaxWord));
  }
  return {};
};

Result<Rank> rank_of(const JsonAt& at, const std::string& text, std::uint32_t size, std::optional<Rank> leader) {
  auto rank = parse_u64(text);
  const bool is_one = rank && (*rank < size || *rank == leader);
  if (is_one && std::to_string(*rank) == text) return static_cast<Rank>(*rank);
  return at.error(fmt::format("expected ranks below {} as keys, got {}", size, in_quotes(text)));
}

// By rank, as keys of an object.
struct Addresses {
  std::uint32_t size;
  std::optional<Rank> leader;

  [[nodiscard]] static Json write(const std::map<Rank, std::string>& addresses) {
    Json out = Json::object();
    for (const auto& [rank, text] : addresses) out[std::to_string(rank)] = text;
    return out;
  }
  Result<void> read(const JsonAt& all, std::map<Rank, std::string>& out) const {
    for (const auto& [key, at] : TRY(all.members())) {
      Rank rank = TRY(rank_of(all, key, size, leader));
      std::string text = TRY(at.string());
      if (text.size() > kMaxAddresses) return at.error(fmt::format("more than {} bytes", kMaxAddresses));
      for (std::string_view each : split(text, ' ')) {
        if (!each.empty()) CHECK_OK(in(at.path(), transport::Address::parse(each)));
      }
      out[rank] = std::move(text);
    }
    return {};
  }
};

std::string other_protocol(const LaunchRecord& record) {
  return fmt::format(
      "nacre {} has started this shell and speaks protocol {}, this shell speaks {}: the same version "
      "has to be installed on all hosts",
      in_quotes(record.version), record.protocol, group::kProtocol);
}

// A manager that gives the ranks also gives the hosts.
bool has_hosts(const LaunchRecord& record) {
  return (!record.rank && record.hosts.empty()) || record.hosts.size() == record.size;
}

}  // namespace

void fields(auto& io, wire::Of<Carriage> auto& m) {
  io.refuse_others(m);
  io.has("token", m.token);
  io.has("channels", m.channels);
}

void fields(auto& io, wire::Of<NextLeader> auto& m) {
  io.has("host", m.host);
  io.has("allocation", m.allocation);
  io.expect(!m.host.empty() && m.host.front() != '-' && !m.allocation.empty() && m.allocation.front() != '-',
            "names that are no options");
}

void fields(auto& io, wire::Of<LaunchRecord> auto& m) {
  constexpr std::int64_t kMostShells = group::Membership::kMaxShells;
  io.has("version", m.version);
  io.has("protocol", m.protocol);
  io.require(m.protocol == group::kProtocol, [&] { return other_protocol(m); });
  io.refuse_others(m);
  io.has("jobid", m.job);
  io.has("size", m.size, wire::Between{1, kMostShells});
  io.has("arity", m.arity, wire::Between{2, LaunchRecord::kMaxArity});
  io.may_have("growth", m.growth);
  io.may_have("leader", m.leader, wire::Between{0, kMostShells});
  io.check("leader", !m.leader || m.growth, "expected only where there is growth");
  io.may_have("rank", m.rank,
              m.growth ? wire::Between{m.size, kMostShells} : wire::Between{0, std::int64_t{m.size} - 1});
  io.has("hosts", m.hosts);
  io.check("hosts", has_hosts(m), [&] { return fmt::format("{} hosts for {} shells", m.hosts.size(), m.size); });
  io.has("agent", m.agent, kSomeWords);
  io.has("shell", m.shell, kSomeWords);
  io.check("shell", !m.shell.empty() && !m.shell[0].empty(), "expected the path of nacre-shell first");
  io.has("timeout", m.timeout, kTime);
  io.has("addresses", m.addresses, Addresses{m.size, m.leader});
  io.may_have("environment", m.environment, kKnownVariables);
  io.may_have("umask", m.umask, wire::Between{0, 0777});
  io.may_have("jobspec", m.jobspec);
  io.may_have("R", m.resources);
  if constexpr (wire::kReads<decltype(io)>) m.makes_resources = !m.resources;
  io.has_if(m.resources ? m.growth.has_value() : !m.makes_resources, "offer", m.makes_resources);
  io.may_have("options", m.options, kSomeWords);
  io.may_have("sources", m.sources);
  io.may_have("input", m.input);
  io.may_have("remote", m.remote);
  io.may_have("terminal", m.terminal);
  io.has_if(m.front != LaunchRecord().front, "front", m.front);
  io.may_have("detach", m.detaching, wire::Words(kDetaching, "request or start"));
  io.may_have("carriage", m.carriage,
              [](const JsonAt& at, const Carriage& carriage) { return in(at.path(), carriage.check()); });
}

Result<LaunchRecord> LaunchRecord::parse(std::string_view line) {
  return in(kWhere, wire::from_text<LaunchRecord>(line));
}

std::string LaunchRecord::line() const { return wire::to_text(*this) + '\n'; }

std::vector<Rank> LaunchRecord::children() const {
  std::vector<Rank> out;
  std::uint64_t first = std::uint64_t{*rank} * arity + 1;
  for (std::uint64_t each = first; each < std::min<std::uint64_t>(first + arity, size); ++each) {
    out.push_back(static_cast<Rank>(each));
  }
  return out;
}

LaunchRecord LaunchRecord::of_child(Rank child, const std::string& address) const {
  LaunchRecord out = *this;
  out.rank = child;
  out.addresses[*rank] = address;
  out.jobspec.reset();
  if (std::exchange(out.resources, std::nullopt)) out.makes_resources = false;
  out.options.clear();
  out.sources.clear();
  out.carriage.reset();
  out.input = out.remote = out.terminal = false;
  out.detaching = Detaching::never;
  return out;
}

// They differ in the rank alone, and the hosts may be many.
std::vector<std::string> LaunchRecord::lines_of_children(const std::string& address) const {
  const std::vector<Rank> ranks = children();
  std::vector<std::string> out;
  if (ranks.empty()) return out;
  Json record = wire::to_json(of_child(ranks.front(), address));
  for (Rank child : ranks) {
    record["rank"] = child;
    out.push_back(dump_json(record) + '\n');
  }
  return out;
}

// ---- next leader ------------------------------------------------------------------------

NextLeader NextLeader::own() {
  return {own_variable("SLURMD_NODENAME").value_or(own_host_name()), own_variable("SLURM_JOB_ID").value_or("")};
}

Result<NextLeader> NextLeader::parse(std::string_view message) { return wire::from_text<NextLeader>(message); }

std::string NextLeader::message() const { return wire::to_text(*this); }

// ---- carriage ---------------------------------------------------------------------------

namespace {

constexpr char kStart = '\x1e';
constexpr char kMore = '+';
constexpr char kLast = '.';
constexpr std::size_t kCheckDigits = 8;
constexpr std::string_view kHex = "0123456789abcdef";
constexpr std::size_t kEscape = 3;  // bytes: %XX

std::string check_of(std::string_view number, std::string_view channel, char mark, std::string_view bytes) {
  std::uint32_t hash = 2166136261U;
  auto add = [&hash](std::string_view text) {
    for (char each : text) hash = (hash ^ static_cast<unsigned char>(each)) * 16777619U;
  };
  add(number);
  add(channel);
  add({&mark, 1});
  add(bytes);
  return fmt::format("{:08x}", hash);
}

bool is_plain(char byte) {
  auto value = static_cast<unsigned char>(byte);
  return value >= 0x20 && value != 0x7f && byte != '%';
}

// Takes from `bytes` as much as fits into `room`.
std::string escaped(std::string_view& bytes, std::size_t room) {
  std::string out;
  std::size_t taken = 0;
  for (; taken < bytes.size(); ++taken) {
    char each = bytes[taken];
    bool plain = is_plain(each);
    if (out.size() + (plain ? 1 : kEscape) > room) break;
    if (plain) {
      out += each;
    } else {
      auto value = static_cast<unsigned char>(each);
      out += '%';
      out += kHex[value >> 4];
      out += kHex[value & 0xF];
    }
  }
  bytes.remove_prefix(taken);
  return out;
}

std::string unescaped(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%' || i + 2 >= text.size()) {
      out += text[i];
      continue;
    }
    out += static_cast<char>(kHex.find(text[i + 1]) << 4 | kHex.find(text[i + 2]));
    i += 2;
  }
  return out;
}

bool is_hex(std::string_view text) { return text.find_first_not_of(kHex) == text.npos; }

bool is_channel(std::string_view text) {
  return !text.empty() && text.size() <= Carriage::kMaxChannel &&
         text.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789.-") == text.npos;
}

}  // namespace

Result<Carriage> Carriage::with_new_token() {
  auto secret = TRY(transport::Secret::generate());
  Carriage out;
  out.token = secret.hex().substr(0, kToken);
  return out;
}

Result<void> Carriage::check() const {
  if (token.size() != kToken || !is_hex(token))
    return invalid(fmt::format("token: expected {} hexadecimal digits", kToken));
  if (channels.size() > kMaxChannels) return invalid(fmt::format("channels: expected at most {}", kMaxChannels));
  for (const std::string& each : channels) {
    if (!is_channel(each))
      return invalid(fmt::format("channels: expected names of options, got {}", in_quotes(each)));
  }
  return {};
}

std::vector<std::string> CarriageWriter::lines(std::string_view channel, std::string_view message) {
  std::vector<std::string> out;
  do {
    std::string number = std::to_string(++number_);
    std::string head = fmt::format("{}{} {} {} ", kStart, token_, number, channel);
    constexpr std::size_t kBehind = 1 + kCheckDigits + 1 + 1;  // mark, check, blank and newline
    std::string bytes = escaped(message, kMaxLine - head.size() - kBehind);
    char mark = message.empty() ? kLast : kMore;
    out.push_back(fmt::format("{}{}{} {}\n", head, mark, check_of(number, channel, mark, bytes), bytes));
  } while (!message.empty());
  return out;
}

CarriageReader::CarriageReader(const std::string& token, Callbacks callbacks, bool is_labelled)
    : mark_(kStart + token + ' '), callbacks_(std::move(callbacks)), is_labelled_(is_labelled) {}

void CarriageReader::take(std::string_view bytes) {
  while (!bytes.empty()) {
    if (held_.empty()) {
      std::size_t start = std::min(bytes.find(kStart), bytes.size());
      if (start > 0) pass_on(bytes.substr(0, start));
      bytes.remove_prefix(start);
      if (bytes.empty()) return;
    }
    add(bytes.front());
    bytes.remove_prefix(1);
  }
}

void CarriageReader::add(char byte) {
  held_ += byte;
  std::size_t last = held_.size() - 1;
  if (last < mark_.size() ? byte != mark_[last] : held_.size() > CarriageWriter::kMaxLine) return let_go();
  if (last < mark_.size() || byte != '\n') return;
  if (!take_line()) return let_go();
  held_.clear();
  if (is_labelled_) leave_out_line();
}

void CarriageReader::pass_on(std::string_view bytes) {
  if (!is_labelled_) return callbacks_.on_other(bytes);
  std::string out;
  for (char byte : bytes) {
    if (is_at_start_ && continues_label(byte)) {
      label_ += byte;
      continue;
    }
    out += std::exchange(label_, {}) + byte;
    is_at_start_ = byte == '\n';
  }
  if (!out.empty()) callbacks_.on_other(out);
}

// Any number of blanks, digits, a colon and a blank.
bool CarriageReader::continues_label(char byte) const {
  const char last = label_.empty() ? ' ' : label_.back();
  if (last == ':') return byte == ' ';
  const bool is_digit = byte >= '0' && byte <= '9';
  if (last != ' ') return is_digit || byte == ':';
  const bool is_whole = label_.find(':') != label_.npos;
  return !is_whole && (is_digit || byte == ' ');
}

// The line that has just ended was a message's, or its end was.
void CarriageReader::leave_out_line() {
  if (!is_at_start_) callbacks_.on_other("\n");
  is_at_start_ = true;
  label_.clear();
}

// The held bytes are no line. Another line may begin within them.
void CarriageReader::let_go() {
  bool was_line = held_.size() > mark_.size();
  std::string held = std::exchange(held_, {});
  if (was_line) {
    skips_ = true;
    callbacks_.on_loss();
  }
  pass_on(std::string_view(held).substr(0, 1));
  take(std::string_view(held).substr(1));
}

void CarriageReader::end() {
  while (!held_.empty()) {
    std::string held = std::exchange(held_, {});
    pass_on(std::string_view(held).substr(0, 1));
    take(std::string_view(held).substr(1));
  }
  if (!label_.empty()) callbacks_.on_other(std::exchange(label_, {}));
}

// False: the line is broken.
bool CarriageReader::take_line() {
  std::string_view line = std::string_view(held_).substr(mark_.size());
  line.remove_suffix(1);
  auto word = [&line] {
    std::size_t end = std::min(line.find(' '), line.size());
    std::string_view out = line.substr(0, end);
    line.remove_prefix(std::min(end + 1, line.size()));
    return out;
  };
  std::string_view number = word();
  std::string_view channel = word();
  std::string_view check = word();
  auto value = parse_u64(number);
  if (!value || !is_channel(channel) || check.empty()) return false;
  char mark = check.front();
  if ((mark != kMore && mark != kLast) || check.substr(1) != check_of(number, channel, mark, line)) return false;
  take_piece(*value, channel, mark == kMore, unescaped(line));
  return true;
}

void CarriageReader::take_piece(std::uint64_t number, std::string_view channel, bool more, std::string bytes) {
  if (channel == Carriage::kWanted) {  // between the lines of the leader, if that lives
    if (!more) callbacks_.on_message(channel, bytes);
    return;
  }
  const bool begins_anew = number == 1 && channel == Carriage::kLeads;
  bool follows = number == number_ + 1 || begins_anew;
  if (begins_anew) is_within_ = skips_ = false;
  number_ = number;
  if (!follows) {
    if (!skips_) callbacks_.on_loss();
    // Only after the end of a message is it certain that a message begins here.
    skips_ = true;
    is_within_ = false;
  }
  if (!is_within_) message_.clear();
  is_within_ = more;
  channel_ = channel;
  message_ += bytes;
  if (message_.size() > kMaxMessage && !std::exchange(skips_, true)) callbacks_.on_loss();
  if (skips_) message_.clear();
  if (more) return;
  if (!std::exchange(skips_, false)) callbacks_.on_message(channel_, message_);
  message_.clear();
}

}  // namespace nacre::launch
