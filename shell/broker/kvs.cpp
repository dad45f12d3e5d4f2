// SPDX-License-Identifier: Apache-2.0
#include "broker/kvs.hpp"

#include "base/bytes.hpp"
#include "base/text.hpp"

namespace nacre::broker {
namespace {

constexpr int kAppend = 32;  // a flag of an operation

Json value_of(std::string_view bytes) {
  std::string text;
  append_base64(text, bytes);
  return {{"ver", 1}, {"type", "val"}, {"data", std::move(text)}};
}

}  // namespace

Json put_of(std::string_view key, std::string_view bytes) {
  return {{"key", key}, {"flags", 0}, {"dirent", value_of(bytes)}};
}

Json append_of(std::string_view key, std::string_view bytes) {
  return {{"key", key}, {"flags", kAppend}, {"dirent", value_of(bytes)}};
}

Json unlink_of(std::string_view key) { return {{"key", key}, {"flags", 0}, {"dirent", nullptr}}; }

Json commit(std::string_view in_namespace, Json operations) {
  return {{"namespace", in_namespace}, {"flags", 0}, {"ops", std::move(operations)}};
}

Result<std::string> bytes_of(const Json& value) {
  const JsonAt at = JsonAt::root(value);
  auto bytes = from_base64(TRY(TRY(at.at("data")).string()));
  if (!bytes) return at.error("data: expected base64");
  return *std::move(bytes);
}

EventlogWriter::~EventlogWriter() {
  if (tag_) broker_.forget(*tag_);
}

EventlogWriter::Listener EventlogWriter::notify(Callbacks callbacks) {
  auto out = std::make_shared<const Callbacks>(std::move(callbacks));
  listeners_.push_back(out);
  return out;
}

// Listeners may go meanwhile, and others come.
void EventlogWriter::tell(const std::function<void(const Callbacks&)>& what) {
  std::erase_if(listeners_, [](const auto& each) { return each.expired(); });
  for (std::size_t i = 0, count = listeners_.size(); i < count; ++i) {
    if (Listener each = listeners_[i].lock()) what(*each);
  }
}

void EventlogWriter::append(const std::string& key, std::string_view bytes) {
  if (failure_) return;
  Log& log = logs_[key];
  log.waiting += bytes;
  log.taken += bytes.size();
  waiting_ += bytes.size();
  if (!tag_) send();
}

bool EventlogWriter::flush(double patience) {
  auto is_any = [](std::uint32_t tag) { return tag != kNoTag; };
  while (!flushed() && broker_.wait_for_response(is_any, patience)) {
  }
  return flushed() && !failure_;
}

std::uint64_t EventlogWriter::taken(const std::string& key) const {
  auto found = logs_.find(key);
  return found != logs_.end() ? found->second.taken : 0;
}

std::uint64_t EventlogWriter::stored(const std::string& key) const {
  auto found = logs_.find(key);
  return found != logs_.end() ? found->second.stored : 0;
}

// A value of the store has whole lines, as readers decode each by itself. Its base64 is written where it stays, as
// it may be megabytes.
void EventlogWriter::send() {
  if (waiting_ == 0) return;
  std::string text = fmt::format(R"({{"namespace":{},"flags":0,"ops":[)", dump_json(namespace_));
  constexpr std::size_t kForEach = 128;  // bytes of an operation beside its key and its data, at most
  std::size_t room = text.size() + kForEach;
  for (const auto& [key, log] : logs_) room += base64_size(log.waiting.size()) + key.size() + kForEach;
  text.reserve(room);
  std::size_t size = 0;
  for (auto& [key, log] : logs_) {
    if (log.waiting.empty() || size >= kCommit) continue;
    std::size_t end = log.waiting.size();
    if (end > kCommit - size) {
      const std::size_t line = log.waiting.find('\n', kCommit - size);
      end = line == std::string::npos ? end : line + 1;
    }
    text += fmt::format(R"({}{{"key":"{}","flags":{},"dirent":{{"ver":1,"type":"val","data":")",
                        size == 0 ? "" : ",", key, kAppend);
    append_base64(text, std::string_view(log.waiting).substr(0, end));
    text += "\"}}";
    log.waiting.erase(0, end);
    log.on_way = end;
    size += end;
  }
  if (size == 0) return;
  waiting_ -= size;
  text += "]}";
  tag_ = broker_.call_with_text("kvs.commit", std::move(text),
                                [this](const Result<Json>& answer) { committed(answer); });
}

void EventlogWriter::committed(const Result<Json>& answer) {
  const bool was_full = full();
  tag_.reset();
  for (auto& [key, log] : logs_) {
    if (answer) log.stored += log.on_way;
    log.on_way = 0;
  }
  if (!answer) {
    failure_ = answer.error();
    waiting_ = 0;
    tell([this](const Callbacks& each) {
      if (each.on_error) each.on_error(*failure_);
    });
  } else {
    send();
  }
  if (!was_full && !flushed()) return;
  tell([](const Callbacks& each) {
    if (each.on_room) each.on_room();
  });
}

namespace {

constexpr double kPatience = 60;      // seconds for the connection, and for an archive's files
constexpr double kLook = 0.1;         // seconds between two questions whether to go on
constexpr std::size_t kUnderWay = 8;  // requests

struct Hash {
  std::string_view prefix;
  std::size_t bytes;
};
constexpr std::array kHashes{Hash{"sha1-", 20}, Hash{"sha256-", 32}};

}  // namespace

Result<std::string> hash_of(std::string_view blobref) {
  const auto wrong = [&] {
    return invalid(fmt::format("expected sha1-HEX or sha256-HEX, got {}", in_quotes(blobref)));
  };
  const auto* hash = std::find_if(kHashes.begin(), kHashes.end(),
                                  [&](const Hash& each) { return blobref.starts_with(each.prefix); });
  if (hash == kHashes.end()) return wrong();
  const std::string_view digits = blobref.substr(hash->prefix.size());
  if (digits.size() != 2 * hash->bytes) return wrong();
  std::string out;
  for (std::size_t i = 0; i < digits.size(); i += 2) {
    unsigned char byte = 0;
    const char* end = digits.data() + i + 2;
    if (std::from_chars(digits.data() + i, end, byte, 16).ptr != end) return wrong();
    out += static_cast<char>(byte);
  }
  return out;
}

Result<ContentStore> ContentStore::connect(std::string_view uri) {
  return ContentStore(TRY(Broker::connect(uri, kPatience)));
}

Result<std::optional<Json>> ContentStore::archive(const std::string& name) {
  const std::string key = "archive." + name;
  auto found = broker_->ask("kvs.lookup", {{"key", key}, {"namespace", "primary"}, {"flags", 0}});
  if (!found && found.error().code == ENOENT) return std::optional<Json>();
  CHECK_OK(found);
  const std::string text = TRY(in(key, bytes_of(TRY(JsonAt::root(*found).at("val")).json())));
  return std::optional<Json>(TRY(in(key, parse_json(text))));
}

Result<void> ContentStore::load(const std::vector<std::string>& blobrefs, const Take& take,
                                const std::function<bool()>& goes_on) {
  std::deque<Broker::Asked> asked;
  std::size_t next = 0;
  for (std::size_t index = 0; index < blobrefs.size(); ++index) {
    for (; next < blobrefs.size() && asked.size() < kUnderWay; ++next)
      asked.push_back(broker_->begin_raw("content.load", TRY(hash_of(blobrefs[next]))));
    std::optional<std::string> bytes;
    while (!bytes) {
      if (goes_on && !goes_on()) return Error{ECANCELED, "interrupted"};
      bytes = TRY(in(blobrefs[index], broker_->raw_answer(asked.front(), kLook)));
    }
    asked.pop_front();
    CHECK_OK(take(index, *bytes));
  }
  return {};
}

}  // namespace nacre::broker
