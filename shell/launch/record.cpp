// SPDX-License-Identifier: Apache-2.0
#include "launch/record.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "base/json.hpp"
#include "base/text.hpp"
#include "group/directory.hpp"
#include "group/first_words.hpp"
#include "transport/address.hpp"
#include "transport/secret.hpp"

namespace nacre::launch {
namespace {

using group::Rank;

constexpr const char* kWhere = "the launch record";
constexpr const char* kOnRequest = "request";  // of `detach`
constexpr const char* kAtStart = "start";
constexpr std::size_t kMaxAddresses = 1024;  // bytes, of one shell

Result<std::uint32_t> number_at(const JsonAt& root, const char* key, std::uint32_t least, std::uint32_t most) {
  return static_cast<std::uint32_t>(TRY(TRY(root.at(key)).integer(least, most)));
}

Result<std::vector<std::string>> words_at(const JsonAt& at) {
  std::vector<std::string> words = TRY(at.strings());
  if (words.size() > LaunchRecord::kMaxWords)
    return at.error(fmt::format("more than {} words", LaunchRecord::kMaxWords));
  for (const std::string& word : words) {
    if (word.size() > LaunchRecord::kMaxWord || word.find('\0') != std::string::npos) {
      return at.error(fmt::format("expected words of at most {} bytes without NUL", LaunchRecord::kMaxWord));
    }
  }
  return words;
}

Result<Rank> rank_of(const JsonAt& at, const std::string& text, std::uint32_t size) {
  auto rank = parse_u64(text);
  if (rank && *rank < size && std::to_string(*rank) == text) return static_cast<Rank>(*rank);
  return at.error(fmt::format("expected ranks below {} as keys, got {}", size, in_quotes(text)));
}

Result<std::map<Rank, std::string>> addresses_at(const JsonAt& root, std::uint32_t size) {
  std::map<Rank, std::string> out;
  JsonAt all = TRY(root.at("addresses"));
  for (const auto& [key, at] : TRY(all.members())) {
    Rank rank = TRY(rank_of(all, key, size));
    std::string text = TRY(at.string());
    if (text.size() > kMaxAddresses) return at.error(fmt::format("more than {} bytes", kMaxAddresses));
    for (std::string_view each : split(text, ' ')) {
      if (!each.empty()) CHECK_OK(in(at.path(), transport::Address::parse(each)));
    }
    out[rank] = std::move(text);
  }
  return out;
}

Result<std::map<std::string, std::string>> environment_at(const JsonAt& root) {
  std::map<std::string, std::string> out;
  auto all = TRY(root.find("environment"));
  if (!all) return out;
  constexpr const auto& kNames = LaunchRecord::kVariables;
  for (const auto& [name, at] : TRY(all->members())) {
    if (std::find(kNames.begin(), kNames.end(), name) == kNames.end())
      return at.error(fmt::format("expected one of {}", fmt::join(kNames, ", ")));
    std::string value = TRY(at.string());
    if (value.size() > LaunchRecord::kMaxWord || value.find('\0') != std::string::npos)
      return at.error(fmt::format("expected at most {} bytes without NUL", LaunchRecord::kMaxWord));
    out[name] = std::move(value);
  }
  return out;
}

Result<std::optional<std::string>> text_at(const JsonAt& root, const char* key) {
  auto found = TRY(root.find(key));
  if (!found) return std::optional<std::string>();
  return TRY(found->string());
}

Result<std::optional<Carriage>> carriage_at(const JsonAt& root) {
  auto found = TRY(root.find("carriage"));
  if (!found) return std::optional<Carriage>();
  CHECK_OK(found->only_keys({"token", "channels"}));
  Carriage out;
  out.token = TRY(TRY(found->at("token")).string());
  out.channels = TRY(TRY(found->at("channels")).strings());
  CHECK_OK(in(found->path(), out.check()));
  return std::optional(std::move(out));
}

Result<Detaching> detaching_at(const JsonAt& root) {
  auto found = TRY(root.find("detach"));
  if (!found) return Detaching::never;
  if (found->json() == kOnRequest) return Detaching::on_request;
  if (found->json() == kAtStart) return Detaching::at_start;
  return found->expected(fmt::format("{} or {}", kOnRequest, kAtStart));
}

Result<void> check_protocol(const JsonAt& root, LaunchRecord& out) {
  out.version = TRY(TRY(root.at("version")).string());
  out.protocol = TRY(number_at(root, "protocol", 0, UINT32_MAX));
  if (out.protocol == group::kProtocol) return {};
  return invalid(
      fmt::format("nacre {} has started this shell and speaks protocol {}, this shell speaks {}: the same version "
                  "has to be installed on all hosts",
                  in_quotes(out.version), out.protocol, group::kProtocol));
}

Result<void> read_places(const JsonAt& root, LaunchRecord& out) {
  out.size = TRY(number_at(root, "size", 1, group::Membership::kMaxShells));
  out.arity = TRY(number_at(root, "arity", 2, LaunchRecord::kMaxArity));
  out.growth = TRY(text_at(root, "growth"));
  std::uint32_t least = out.growth ? out.size : 0;
  std::uint32_t most = out.growth ? group::Membership::kMaxShells : out.size - 1;
  if (auto rank = TRY(root.find("rank"))) out.rank = static_cast<Rank>(TRY(rank->integer(least, most)));
  JsonAt hosts = TRY(root.at("hosts"));
  out.hosts = TRY(in(hosts.path(), value::Hostlist::parse(TRY(hosts.string()))));
  bool managers = !out.rank && out.hosts.empty();  // a manager that gives the ranks also gives the hosts
  if (managers || out.hosts.size() == out.size) return {};
  return hosts.error(fmt::format("{} hosts for {} shells", out.hosts.size(), out.size));
}

Result<LaunchRecord> read_record(const JsonAt& root) {
  LaunchRecord out;
  CHECK_OK(check_protocol(root, out));
  CHECK_OK(root.only_keys({"version", "protocol", "jobid",   "rank",      "size",        "arity",   "hosts",
                           "agent",   "shell",    "timeout", "addresses", "environment", "jobspec", "R",
                           "options", "input",    "remote",  "terminal",  "carriage",    "offer",   "sources",
                           "detach",  "growth",   "front",   "umask"}));
  JsonAt job = TRY(root.at("jobid"));
  out.job = TRY(in(job.path(), value::JobId::parse(TRY(job.string()))));
  CHECK_OK(read_places(root, out));
  out.agent = TRY(words_at(TRY(root.at("agent"))));
  JsonAt shell = TRY(root.at("shell"));
  out.shell = TRY(words_at(shell));
  if (out.shell.empty() || out.shell[0].empty()) return shell.error("expected the path of nacre-shell first");
  JsonAt timeout = TRY(root.at("timeout"));
  out.timeout = TRY(timeout.number());
  if (!(out.timeout > 0 && out.timeout <= LaunchRecord::kMaxTimeout)) {
    return timeout.expected(fmt::format("seconds, more than 0 and at most {}", LaunchRecord::kMaxTimeout));
  }
  out.addresses = TRY(addresses_at(root, out.size));
  out.environment = TRY(environment_at(root));
  if (root.json().contains("umask")) out.umask = TRY(number_at(root, "umask", 0, 0777));
  out.jobspec = TRY(text_at(root, "jobspec"));
  out.resources = TRY(text_at(root, "R"));
  out.makes_resources = !out.resources;
  if (auto offer = TRY(root.find("offer"))) out.makes_resources = TRY(offer->boolean());
  if (auto options = TRY(root.find("options"))) out.options = TRY(words_at(*options));
  if (auto sources = TRY(root.find("sources"))) {
    for (const auto& [path, source] : TRY(sources->members())) out.sources[path] = TRY(source.string());
  }
  if (auto input = TRY(root.find("input"))) out.input = TRY(input->boolean());
  if (auto remote = TRY(root.find("remote"))) out.remote = TRY(remote->boolean());
  if (auto terminal = TRY(root.find("terminal"))) out.terminal = TRY(terminal->boolean());
  if (auto front = TRY(root.find("front"))) out.front = TRY(front->string());
  out.detaching = TRY(detaching_at(root));
  out.carriage = TRY(carriage_at(root));
  return out;
}

}  // namespace

Result<LaunchRecord> LaunchRecord::parse(std::string_view line) {
  Json json = TRY(in(kWhere, parse_json(line)));
  return in(kWhere, read_record(JsonAt::root(json)));
}

std::string LaunchRecord::line() const {
  Json json{{"version", version},   {"protocol", protocol}, {"jobid", job.f58_plain()},
            {"size", size},         {"arity", arity},       {"agent", agent},
            {"hosts", hosts.str()}, {"shell", shell},       {"timeout", timeout}};
  if (rank) json["rank"] = *rank;
  Json known = Json::object();
  for (const auto& [each, text] : addresses) known[std::to_string(each)] = text;
  json["addresses"] = std::move(known);
  if (!environment.empty()) json["environment"] = environment;
  if (umask) json["umask"] = *umask;
  if (jobspec) json["jobspec"] = *jobspec;
  if (resources) json["R"] = *resources;
  if (!resources && !makes_resources) json["offer"] = false;
  if (growth) json["growth"] = *growth;
  if (growth && resources) json["offer"] = makes_resources;
  if (!options.empty()) json["options"] = options;
  if (!sources.empty()) json["sources"] = sources;
  if (input) json["input"] = true;
  if (remote) json["remote"] = true;
  if (terminal) json["terminal"] = true;
  if (front != LaunchRecord().front) json["front"] = front;
  if (detaching != Detaching::never) json["detach"] = detaching == Detaching::at_start ? kAtStart : kOnRequest;
  if (carriage) json["carriage"] = {{"token", carriage->token}, {"channels", carriage->channels}};
  return dump_json(json) + '\n';
}

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

CarriageReader::CarriageReader(const std::string& token, Callbacks callbacks)
    : mark_(kStart + token + ' '), callbacks_(std::move(callbacks)) {}

void CarriageReader::take(std::string_view bytes) {
  while (!bytes.empty()) {
    if (held_.empty()) {
      std::size_t start = std::min(bytes.find(kStart), bytes.size());
      if (start > 0) callbacks_.on_other(bytes.substr(0, start));
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
}

// The held bytes are no line. Another line may begin within them.
void CarriageReader::let_go() {
  bool was_line = held_.size() > mark_.size();
  std::string held = std::exchange(held_, {});
  if (was_line) {
    skips_ = true;
    callbacks_.on_loss();
  }
  callbacks_.on_other(std::string_view(held).substr(0, 1));
  take(std::string_view(held).substr(1));
}

void CarriageReader::end() {
  while (!held_.empty()) {
    std::string held = std::exchange(held_, {});
    callbacks_.on_other(std::string_view(held).substr(0, 1));
    take(std::string_view(held).substr(1));
  }
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
  bool follows = number == number_ + 1;
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
