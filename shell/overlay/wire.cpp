// SPDX-License-Identifier: Apache-2.0
#include "overlay/wire.hpp"

#include "base/bytes.hpp"
#include "overlay/cbor.hpp"

namespace nacre::overlay {
namespace {

constexpr std::array<std::string_view, 9> kTypes = {"hello",   "welcome", "entry", "up",  "beat",
                                                    "request", "bye",     "claim", "vote"};
// Of each alternative its name.
template <typename... T>
constexpr std::array<std::string_view, sizeof...(T)> names_of(const std::variant<T...>* /*of*/) {
  return {T::kName...};
}
constexpr auto kEntries = names_of(static_cast<const EntryBody*>(nullptr));
constexpr auto kRequests = names_of(static_cast<const RequestBody*>(nullptr));
constexpr std::array<std::string_view, 3> kStandings = {"joining", "member", "leaving"};
constexpr std::array<std::string_view, 5> kFarewells = {"moved", "removed", "gone", "finished", "refused"};

// M, or const M if T is const (when the message is written).
template <typename M, typename T>
concept Of = std::same_as<std::remove_const_t<M>, T>;

template <typename IO>
constexpr bool kReads = std::is_same_v<std::remove_reference_t<IO>, FieldReader>;

}  // namespace

// Not in the anonymous namespace: the templates find these functions by the types of their arguments.

// Those of entries are beside their structs (overlay/entry.hpp).
template <typename T>
void fields(auto& io, T& m) requires requires {
  std::remove_const_t<T>::fields(io, m);
}
{ std::remove_const_t<T>::fields(io, m); }

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
void fields(auto& io, Of<Part> auto& m) { Release::fields(io, m); }
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

}  // namespace nacre::overlay
