// SPDX-License-Identifier: Apache-2.0
#include "pmi/client.hpp"

#include "base/text.hpp"

namespace nacre::pmi {
namespace {

// `most`: the server's limit, with a NUL.
Result<void> check_key(std::string_view key, std::size_t most) {
  if (key.empty()) return invalid("the key is empty");
  if (key.size() >= most)
    return Error{EMSGSIZE, fmt::format("the key has {} bytes, the server takes {}", key.size(), most - 1)};
  bool fits = std::all_of(key.begin(), key.end(), [](char c) { return c > ' ' && c != '\x7f' && c != '='; });
  if (!fits) return invalid(fmt::format("the key is not one word: {}", in_quotes(key)));
  return {};
}

Result<void> check_value(std::string_view value, std::size_t most) {
  if (value.empty()) return invalid("the value is empty");
  if (value.size() >= most)
    return Error{EMSGSIZE, fmt::format("the value has {} bytes, the server takes {}", value.size(), most - 1)};
  if (value.find_first_of(std::string_view("\n\0", 2)) != std::string_view::npos)
    return invalid(fmt::format("the value is not one line: {}", in_quotes(value)));
  return {};
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
  CHECK_OK(in("put", check_key(key, maxes_->key)));
  CHECK_OK(in(fmt::format("put: {}", key), check_value(value, maxes_->value)));
  return ask("put", "put_result", fmt::format(" kvsname={} key={} value={}", kvsname_, key, value));
}

Result<std::string> ClientSession::get(std::string_view key) {
  CHECK_OK(may_use_keys("get"));
  CHECK_OK(in("get", check_key(key, maxes_->key)));
  return ask("get", "get_result", fmt::format(" kvsname={} key={}", kvsname_, key));
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
  bool refused = message.find("rc").value_or("0") != "0";
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
  } else if (request_ == "get") {
    reply.text = value_in(TRY(message.text("value")));
  }
  return {};
}

}  // namespace nacre::pmi
