// SPDX-License-Identifier: Apache-2.0
#include "overlay/wire.hpp"

#include "base/bytes.hpp"
#include "overlay/cbor.hpp"

namespace nacre::overlay {
namespace {

constexpr std::array<std::string_view, 9> kTypes = {"hello",   "welcome", "entry", "up",  "beat",
                                                    "request", "bye",     "claim", "vote"};
constexpr std::array<std::string_view, 10> kEntries = {"view",      "release", "event",    "exec",    "signal",
                                                       "exception", "end",     "campaign", "refused", "promise"};
constexpr std::array<std::string_view, 7> kRequests = {"event", "exec",   "signal", "exception",
                                                       "end",   "shrink", "grow"};
constexpr std::array<std::string_view, 4> kMerges = {"gather", "max", "sum", "set"};
constexpr std::array<std::string_view, 2> kExecKinds = {"tasks", "tool"};
constexpr std::array<std::string_view, 3> kStandings = {"joining", "member", "leaving"};
constexpr std::array<std::string_view, 5> kFarewells = {"moved", "removed", "gone", "finished", "refused"};

// M, or const M if T is const (when the message is written).
template <typename M, typename T>
concept Of = std::same_as<std::remove_const_t<M>, T>;

template <typename IO>
constexpr bool kReads = std::is_same_v<std::remove_reference_t<IO>, FieldReader>;

}  // namespace

// Not in the anonymous namespace: the templates find these functions by the types of their arguments.

// ---- parts of entries --------------------------------------------------------------------

void fields(auto& io, Of<Newcomer> auto& m) {
  io.number("id", m.id, Idset::kMaxId);
  io.text("address", m.address);
}
void fields(auto& io, Of<RankShare> auto& m) {
  io.number("member", m.member, Idset::kMaxId);
  io.ids("ranks", m.ranks);
}
void fields(auto& io, Of<Scope> auto& m) {
  io.number("from", m.from);
  io.number("to", m.to);
}
void fields(auto& io, Of<RequestId> auto& m) {
  io.number("origin", m.origin, Idset::kMaxId);
  io.number("number", m.number);
}

// ---- entries and requests ----------------------------------------------------------------

void fields(auto& io, Of<View> auto& m) {
  io.list("add", m.add);
  io.ids("leave", m.leave);
  io.ids("dead", m.dead);
  io.number("leader", m.leader, Idset::kMaxId);
}
void piece(auto& io, auto& m) {
  io.text("name", m.name);
  io.object("scope", m.scope);
  io.word("merge", m.merge, kMerges);
  io.number("at", m.at);
  io.number("total", m.total, kMaxValue);
  io.data("data", m.data);
  if constexpr (kReads<decltype(io)>) {
    if (m.at > m.total || m.data.size() > m.total - m.at) io.fail("at", "the piece goes beyond the total");
  }
}
void fields(auto& io, Of<Release> auto& m) { piece(io, m); }
void fields(auto& io, Of<Promise> auto& m) {
  io.text("name", m.name);
  io.object("scope", m.scope);
  io.word("merge", m.merge, kMerges);
  io.number("size", m.size, kMaxValue);
  io.data("digest", m.digest);
  if constexpr (kReads<decltype(io)>) {
    if (m.digest.size() != kDigest) io.fail("digest", "32 bytes");
  }
}
void fields(auto& io, Of<Event> auto& m) {
  io.text("name", m.name);
  io.data("data", m.data);
}
void fields(auto& io, Of<Exec> auto& m) {
  io.number("view", m.view);
  io.list("map", m.map);
  io.data("command", m.command);
  io.flag("strict", m.strict);
  io.word("starts", m.kind, kExecKinds);
}
void fields(auto& io, Of<Signal> auto& m) {
  io.number("number", m.number);
  io.maybe_ids("ranks", m.ranks);
}
void fields(auto& io, Of<ExceptionEntry> auto& m) {
  io.text("name", m.type);
  io.number("severity", m.severity);
  io.data("note", m.note);
}
void fields(auto& io, Of<End> auto& m) { io.number("code", m.code); }
void fields(auto& io, Of<Campaign> auto& m) {
  io.flag("grow", m.grow);
  io.number("view", m.view);
  io.ids("done", m.done);
  io.ids("unconfirmed", m.unconfirmed);
}
void fields(auto& io, Of<Refused> auto& m) {
  io.text("why", m.why);
  io.ids("members", m.members);
}
void fields(auto& io, Of<Shrink> auto& m) { io.ids("leave", m.leave); }
void fields(auto& io, Of<Grow> auto& m) {
  io.ids("add", m.add);
  io.number("wait", m.wait);
}

// ---- messages ----------------------------------------------------------------------------

void fields(auto& io, Of<Hello> auto& m) {
  io.number("from", m.from, Idset::kMaxId);
  io.word("standing", m.standing, kStandings);
  io.number("applied", m.applied);
  io.number("view", m.view);
  io.text("address", m.address);
  io.ids("suspects", m.suspects);
  io.number("log_term", m.log_term);
}
void fields(auto& io, Of<Seat> auto& m) {
  io.number("slot", m.slot);
  io.number("id", m.id, Idset::kMaxId);
  io.number("joined", m.joined);
  io.text("address", m.address);
}
void fields(auto& io, Of<OpenView> auto& m) {
  io.object("request", m.request);
  io.flag("grow", m.grow);
  io.number("view", m.view);
  io.ids("targets", m.targets);
}
void fields(auto& io, Of<Quorum> auto& m) {
  io.number("view", m.view);
  io.ids("members", m.members);
}
void fields(auto& io, Of<Snapshot> auto& m) {
  io.number("first", m.first);
  io.number("arity", m.arity);
  io.number("size", m.size);
  io.list("seats", m.seats);
  io.ids("leaving", m.leaving);
  io.list("answered", m.answered);
  io.list("open", m.open);
  io.list("quorums", m.quorums);
  if constexpr (kReads<decltype(io)>) {
    if (m.first == 0 || m.size == 0) io.fail("size", "a tree has at least one member");
    if (m.arity < 2) io.fail("arity", "at least 2");
  }
}
void fields(auto& io, Of<Welcome> auto& m) {
  io.number("applied", m.applied);
  io.number("view", m.view);
  io.maybe("snapshot", m.snapshot);
  io.number("log_term", m.log_term);
}
void fields(auto& io, Of<Entry> auto& m) {
  io.number("seq", m.seq);
  io.object("request", m.request);
  io.choice("kind", m.body, kEntries);
}
void fields(auto& io, Of<Part> auto& m) { piece(io, m); }
void fields(auto& io, Of<TaskReport> auto& m) {
  io.ids("tasks", m.tasks);
  io.data("what", m.what);
}
void fields(auto& io, Of<Up> auto& m) {
  io.number("view", m.view);
  io.number("acked", m.acked);
  io.ids("suspects", m.suspects);
  io.ids("gone", m.gone);
  io.ids("started", m.started);
  io.list("exited", m.exited);
  io.list("parts", m.parts);
  io.ids("ended", m.ended);
}
void fields(auto& io, Of<Beat> auto& m) {
  io.number("number", m.number);
  io.number("stable", m.stable);
  io.ids("busy", m.busy);
  io.number("complete", m.complete);
}
void fields(auto& io, Of<Request> auto& m) {
  io.object("request", m.id);
  io.choice("kind", m.body, kRequests);
}
void fields(auto& io, Of<Bye> auto& m) {
  io.word("why", m.why, kFarewells);
  io.text("text", m.text);
}
void fields(auto& io, Of<Claim> auto& m) {
  io.number("ballot", m.ballot);
  io.number("candidate", m.candidate, Idset::kMaxId);
  io.number("applied", m.applied);
  io.number("log_term", m.log_term);
  io.flag("trial", m.trial);
  io.flag("sure", m.sure);
}
void fields(auto& io, Of<Vote> auto& m) {
  io.number("ballot", m.ballot);
  io.number("candidate", m.candidate, Idset::kMaxId);
  io.flag("trial", m.trial);
  io.ids("voters", m.voters);
}
void fields(auto& io, Of<Message> auto& m) {
  io.number("job", m.job);
  io.number("term", m.term);
  io.choice("type", m.body, kTypes);
}

Result<Bytes> encode(const Message& message) {
  FieldWriter io;
  fields(io, message);
  Bytes out;
  io.write(out);
  if (out.size() <= kMaxFrame) return out;
  return Error{EMSGSIZE, fmt::format("{}: a message of {} bytes; at most {}", kTypes.at(message.body.index()),
                                     out.size(), kMaxFrame)};
}

Result<Message> decode(std::string_view frame) {
  if (frame.size() > kMaxFrame) {
    return Error{EMSGSIZE, fmt::format("a frame of {} bytes; at most {}", frame.size(), kMaxFrame)};
  }
  CHECK_OK(check_cbor(frame));
  Message message;
  FieldReader io(take_cbor(frame));
  fields(io, message);
  auto done = io.done();
  if (!done) {
    auto type = io.text_of("type");
    constexpr std::size_t kLongest = 15;
    return in(type && type->size() <= kLongest ? *type : "message", done.error());
  }
  return message;
}

Bytes framed(std::string_view frame) {
  Bytes out;
  out.reserve(kLengthSize + frame.size());
  append_number(out, static_cast<std::uint32_t>(frame.size()));
  out += frame;
  return out;
}

void Frames::add(std::string_view bytes) {
  buffer_.erase(0, std::exchange(read_, 0));
  buffer_ += bytes;
}

Result<std::optional<std::string_view>> Frames::next() {
  std::string_view rest = std::string_view(buffer_).substr(read_);
  if (rest.size() < kLengthSize) return std::nullopt;
  std::string_view head = rest;
  auto size = take_number<std::uint32_t>(head);
  if (size == 0) return invalid("a frame of no bytes");
  if (size > kMaxFrame) return Error{EMSGSIZE, fmt::format("a frame of {} bytes; at most {}", size, kMaxFrame)};
  if (rest.size() < kLengthSize + size) return std::nullopt;
  read_ += kLengthSize + size;
  return rest.substr(kLengthSize, size);
}

}  // namespace nacre::overlay
