// SPDX-License-Identifier: Apache-2.0
#include "bulk/node.hpp"

#include "base/invariant.hpp"

namespace nacre::bulk {
namespace {

constexpr std::size_t kMostStart = kHead + 2 * kMaxBroadcastChannels;  // bytes

// A record from above is taken at once, so the credit only has to be enough for one record.
std::size_t credit_down(const Limits& limits) { return std::max(kHead + limits.record, kMostStart); }

// The broadcast records of a new leader have higher numbers than all that the former one has given.
constexpr unsigned kTermShift = 40;  // no leader broadcasts as many records
std::uint64_t term_of(Numbered number) { return number >> kTermShift; }

// EPROTO: there is less credit.
Result<void> spend(std::size_t& credit, std::size_t bytes, const char* stream) {
  if (bytes > credit) {
    return Error{EPROTO, fmt::format("{} bytes of {}, with credit for {}", bytes, stream, credit)};
  }
  credit -= bytes;
  return {};
}

}  // namespace

BulkNode::BulkNode(const BulkOptions& options)
    : options_(options),
      children_(options.limits),
      broadcast_(options_, out_),
      upward_(options_, children_, out_) {}

void BulkNode::settle() {
  broadcast_.drop_stable();
  if (auto all = leads() ? consumed_by_all() : std::nullopt) broadcast_.all_have(*all);
  send_up();
  notify_up();
  for (auto& [peer, child] : children_) {
    if (child.gone) continue;
    out_.grant({peer, Side::down}, kRecords, child.take_owed(options_.limits.link));
    feed(peer, child);
    notify_down(peer, child);
  }
  children_.forget_done();
}

std::optional<Numbered> BulkNode::consumed_by_all() {
  return broadcast_.started() ? children_.heard_by_all(broadcast_.consumed()) : std::nullopt;
}

// ---- what the owner wants ----------------------------------------------------------------

Result<bool> BulkNode::put(Channel channel, std::string_view bytes) {
  bool is_put = TRY(upward_.put(channel, bytes));
  if (is_put) settle();
  return is_put;
}

Result<void> BulkNode::end(Channel channel) {
  CHECK_OK(upward_.end(channel));
  settle();
  return {};
}

void BulkNode::taken(Id origin, Numbered number) {
  if (!leads()) return;
  upward_.taken(origin, number);
  settle();
}

void BulkNode::waited() {
  if (upward_.waited()) settle();
}

Result<bool> BulkNode::broadcast(Channel channel, std::string_view bytes) {
  bool is_sent = TRY(broadcast_.broadcast(channel, bytes));
  if (is_sent) settle();
  return is_sent;
}

Result<void> BulkNode::end_broadcast(Channel channel) {
  CHECK_OK(broadcast_.end(channel));
  settle();
  return {};
}

void BulkNode::consumed(Numbered number) {
  broadcast_.consumed(number);
  settle();
}

// ---- links -------------------------------------------------------------------------------

void BulkNode::view(ViewNumber number, const std::vector<Id>& children) {
  children_.set_view(number, children);
  settle();
}

void BulkNode::up(Id peer) {
  if (leads()) return;
  std::size_t credit = credit_down(options_.limits);
  up_.emplace(peer, options_.limits, credit);
  out_.grant({peer, Side::up}, kNotes, kNotesCredit);
  out_.grant({peer, Side::up}, kRecords, credit);
  upward_.new_path();
  settle();
}

void BulkNode::lead(std::uint64_t term) {
  up_.reset();
  options_.has_taken_over = true;
  upward_.lead();
  broadcast_.lead(term << kTermShift);
  settle();
}

void BulkNode::no_up() {
  up_.reset();
  settle();
}

void BulkNode::child_up(Id peer) {
  BulkChild& child = children_.add(peer);
  out_.grant({peer, Side::down}, kNotes, child.traffic.note_credit);
  out_.grant({peer, Side::down}, kRecords, child.traffic.record_credit);
  settle();
}

void BulkNode::child_gone(Id peer) {
  lose({peer, Side::down});
  settle();
}

void BulkNode::lose(LinkName link) {
  if (link.side == Side::up) {
    up_.reset();
  } else {
    children_.unlink(link.peer);
  }
}

Traffic* BulkNode::traffic(LinkName link) {
  if (link.side == Side::up) return up_ && up_->peer == link.peer ? &up_->traffic : nullptr;
  BulkChild* child = children_.linked(link.peer);
  return child == nullptr ? nullptr : &child->traffic;
}

void BulkNode::write(LinkName to, StreamId stream, std::string bytes) {
  if (bytes.empty()) return;
  Traffic& at = *traffic(to);
  (stream == kNotes ? at.writes_notes : at.writes_records) = true;
  out_.put(Write{to, stream, std::move(bytes)});
}

void BulkNode::written(LinkName to, StreamId stream) {
  Traffic* at = traffic(to);
  if (at == nullptr) return;
  (stream == kNotes ? at->writes_notes : at->writes_records) = false;
  settle();
}

Result<void> BulkNode::received(LinkName from, StreamId stream, std::string_view bytes) {
  Traffic* at = traffic(from);
  if (at == nullptr) return {};
  BulkChild* child = from.side == Side::down ? children_.linked(from.peer) : nullptr;
  Result<void> done;
  if (stream == kNotes) {
    done = read_notes(from, *at, child, bytes);
  } else if (stream == kRecords) {
    done = read_records(from, *at, child, bytes);
  } else {
    done = Error{EPROTO, fmt::format("bytes of stream {}", stream)};
  }
  if (!done) lose(from);
  settle();
  if (done) return {};
  return in(fmt::format("bulk: shell {}", from.peer), std::move(done).error());
}

Result<void> BulkNode::read_notes(LinkName from, Traffic& at, BulkChild* child, std::string_view bytes) {
  CHECK_OK(spend(at.note_credit, bytes.size(), "notes"));
  at.notes.add(bytes);
  for (;;) {
    std::optional<Note> note = TRY(at.notes.next());
    if (!note) break;
    CHECK_OK(child != nullptr ? take_note_up(*child, *note) : take_note_down(*note));
  }
  at.note_credit += bytes.size();
  out_.grant(from, kNotes, bytes.size());
  return {};
}

Result<void> BulkNode::read_records(LinkName from, Traffic& at, BulkChild* child, std::string_view bytes) {
  CHECK_OK(spend(at.record_credit, bytes.size(), "records"));
  at.records.add(bytes);
  for (;;) {
    std::optional<BulkRecord> record = TRY(at.records.next());
    if (!record) break;
    CHECK_OK(child != nullptr ? upward_.take(from.peer, *child, *record) : broadcast_.take(*record));
  }
  if (child != nullptr) return {};
  at.record_credit += bytes.size();
  out_.grant(from, kRecords, bytes.size());
  return {};
}

// ---- what goes over links ----------------------------------------------------------------

Result<void> BulkNode::take_note_up(BulkChild& child, const Note& note) {
  if (const auto* hello = std::get_if<BulkHello>(&note)) {
    if (std::exchange(child.greeted, true)) return Error{EPROTO, "a second hello"};
    child.unstarted = hello->newcomer;
    child.fed = hello->have;
    return {};
  }
  if (!child.greeted) return Error{EPROTO, "hello comes first"};
  const auto& heard = std::get<Heard>(note);
  if (child.heard && heard.view < child.heard->view) return Error{EPROTO, "a view older than the one before"};
  if (leads() && heard.number > broadcast_.have()) {
    return Error{EPROTO, fmt::format("broadcast record {} was acknowledged; {} is the last one", heard.number,
                                     broadcast_.have())};
  }
  child.heard = heard;
  return {};
}

Result<void> BulkNode::take_note_down(const Note& note) {
  if (const auto* taken = std::get_if<Taken>(&note)) return upward_.take_note(*taken);
  if (std::holds_alternative<Path>(note)) {
    upward_.new_path();
  } else if (const auto* stable = std::get_if<Stable>(&note)) {
    broadcast_.drop(stable->number);
  }
  return {};
}

void BulkNode::send_up() {
  if (!up_ || up_->traffic.writes_records) return;
  std::string out;
  upward_.send(out);
  write({up_->peer, Side::up}, kRecords, std::move(out));
}

void BulkNode::notify_up() {
  if (!up_ || up_->traffic.writes_notes) return;
  std::string out;
  if (!std::exchange(up_->greeted, true)) append_note(out, BulkHello{!broadcast_.started(), broadcast_.have()});
  auto all = consumed_by_all();
  if (all) {
    Heard heard{*children_.view(), *all};
    if (up_->sent != heard) append_note(out, heard);
    up_->sent = heard;
  }
  write({up_->peer, Side::up}, kNotes, std::move(out));
}

// Only the newest note of each kind is kept, so that waiting notes take little room.
void BulkNode::notify_down(Id peer, BulkChild& child) {
  if (child.traffic.writes_notes) return;
  std::string out;
  if (std::exchange(child.path, false)) append_note(out, Path{});
  broadcast_.notify(child, out);
  while (!child.taken.empty() && out.size() < options_.limits.write) {
    auto next = child.taken.begin();
    append_note(out, Taken{next->first, next->second});
    child.taken.erase(next);
  }
  write({peer, Side::down}, kNotes, std::move(out));
}

void BulkNode::feed(Id peer, BulkChild& child) {
  if (child.traffic.writes_records) return;
  std::string out;
  broadcast_.feed(child, out);
  write({peer, Side::down}, kRecords, std::move(out));
}

// ---- child ------------------------------------------------------------------------------

void BulkChild::enqueue(std::string_view record, bool is_answer) {
  queue.push_back({std::string(record), is_answer});
  queued += record.size();
  if (!is_answer) ++urgent;
}

std::size_t BulkChild::take_first(std::string& out) {
  const Queued& first = queue.front();
  std::size_t size = first.record.size();
  out += first.record;
  if (!first.is_answer) --urgent;
  queue.pop_front();
  queued -= size;
  return size;
}

void BulkChild::drop_queue() {
  queue.clear();
  queued = urgent = 0;
}

std::size_t BulkChild::take_owed(std::size_t most) {
  constexpr std::size_t kMuch = std::size_t{16} << 10;
  if (owed < kMuch && traffic.record_credit >= most / 2) return 0;
  traffic.record_credit += owed;
  return std::exchange(owed, 0);
}

BulkChild& BulkChildren::add(Id peer) {
  children_.erase(peer);
  return children_.emplace(peer, BulkChild(++serial_, limits_)).first->second;
}

BulkChild* BulkChildren::linked(Id peer) {
  auto found = children_.find(peer);
  return found == children_.end() || found->second.gone ? nullptr : &found->second;
}

BulkChild* BulkChildren::linked(Id peer, std::uint64_t serial) {
  BulkChild* child = linked(peer);
  return child != nullptr && child->serial == serial ? child : nullptr;
}

void BulkChildren::unlink(Id peer) {
  BulkChild* child = linked(peer);
  if (child == nullptr) return;
  child->gone = true;
  child->traffic.records = BulkRecordReader(Direction::up, limits_.record);
}

void BulkChildren::forget_done() {
  std::erase_if(children_, [](const auto& each) { return each.second.gone && each.second.queue.empty(); });
}

std::size_t BulkChildren::held_bytes(Id peer) const {
  auto found = children_.find(peer);
  return found == children_.end() ? 0 : found->second.queued + found->second.traffic.records.unread();
}

void BulkChildren::set_view(ViewNumber number, const std::vector<Id>& members) {
  view_ = number;
  members_ = members;
}

std::optional<Numbered> BulkChildren::heard_by_all(Numbered own) {
  if (!view_) return std::nullopt;
  Numbered all = own;
  for (Id id : members_) {
    const BulkChild* child = linked(id);
    if (child == nullptr || !child->heard || child->heard->view != *view_) return std::nullopt;
    all = std::min(all, child->heard->number);
  }
  return all;
}

// ---- own records -------------------------------------------------------------------------

Result<bool> UpwardRecords::put(Channel channel, std::string_view bytes) {
  CHECK_OK(check_record(options_.limits, unacked_.ended(), channel, bytes));
  std::size_t size = kHead + bytes.size();
  if (unacked_.bytes() + size > options_.limits.window) {
    wants_ = size;
    return false;
  }
  add(channel, bytes);
  return true;
}

Result<void> UpwardRecords::end(Channel channel) {
  if (unacked_.ended().contains(channel)) return Error{EPIPE, fmt::format("channel {}: it has ended", channel)};
  if (unacked_.ended().size() == kMaxEndedUp)
    return Error{ENOSPC,
                 fmt::format("channel {}: {} channels have ended; no more are allowed", channel, kMaxEndedUp)};
  unacked_.end(channel);
  add(channel, {});
  return {};
}

void UpwardRecords::add(Channel channel, std::string_view bytes) {
  BulkKind kind = bytes.empty() ? BulkKind::end : BulkKind::data;
  Numbered number = unacked_.add(channel, bytes, !options_.leads(), is_answer(kind, channel));
  if (options_.leads()) out_.put(DeliverRecord{options_.self, number, channel, std::string(bytes)});
}

Result<void> UpwardRecords::own_taken(Numbered number) {
  if (number > unacked_.last()) {
    return Error{EPROTO, fmt::format("record {} was taken; {} is the last one", number, unacked_.last())};
  }
  bool had = !unacked_.empty();
  unacked_.taken(number);
  if (had && unacked_.empty()) out_.put(Drained{});
  if (wants_ == 0 || unacked_.bytes() + wants_ > options_.limits.window) return {};
  wants_ = 0;
  out_.put(Room{});
  return {};
}

// ---- the way up --------------------------------------------------------------------------

// What is under way may be lost. All origins whose records have passed here send them again, so the records that
// wait here need not be sent.
void UpwardRecords::new_path() {
  unacked_.rewind();
  if (!std::exchange(dirty_, false)) return;
  for (auto& [peer, child] : children_) {
    if (child.gone) continue;  // its records would not be sent again
    child.path = true;
    child.owed += child.queued;
    child.drop_queue();
  }
}

Result<void> UpwardRecords::take(Id peer, BulkChild& child, const BulkRecord& record) {
  OriginTable::Route from{peer, child.serial};
  bool goes_on = origin_of(record.head) != options_.self && TRY(origins_.came(record.head, from));
  if (goes_on && options_.leads() && record.head.kind == BulkKind::start) {
    CHECK_OK(begin(from, record));
    goes_on = false;
  }
  if (goes_on && options_.leads()) goes_on = deliver(from, record);
  if (!goes_on) {
    child.owed += record.whole.size();
  } else if (!options_.leads()) {
    child.enqueue(record.whole, is_answer(record.head.kind, record.head.channel));
  }
  return {};
}

// True: the record is the owner's until it calls taken().
bool UpwardRecords::deliver(OriginTable::Route from, const BulkRecord& record) {
  Id origin = origin_of(record.head);
  switch (origins_.judge(origin, record.head.number)) {
    case OriginTable::Verdict::ahead: return false;
    case OriginTable::Verdict::again:  // the origin may have missed the note
      note_taken(origin, origins_.taken(origin));
      return false;
    case OriginTable::Verdict::next: break;
  }
  origins_.delivered(origin, record.head.number, from, record.whole.size(),
                     is_answer(record.head.kind, record.head.channel));
  out_.put(DeliverRecord{origin, record.head.number, record.head.channel, std::string(record.bytes)});
  return true;
}

// Another leader took what came before, except the ends of channels.
Result<void> UpwardRecords::begin(OriginTable::Route from, const BulkRecord& start) {
  std::vector<Channel> ended = TRY(ended_channels(start.bytes));
  const Id origin = origin_of(start.head);
  if (ended.size() >= start.head.number)
    return Error{EPROTO, "a start after fewer records than channels have ended"};
  if (!origins_.begin(origin, start.head.number - ended.size())) return {};
  Numbered number = start.head.number - ended.size();
  for (Channel channel : ended) {
    static_cast<void>(origins_.judge(origin, number));
    origins_.delivered(origin, number, from, 0, false);
    out_.put(DeliverRecord{origin, number++, channel, {}});
  }
  return {};
}

// All origins below send again what was not taken.
void UpwardRecords::lead() {
  origins_.take_over();
  for (auto& [peer, child] : children_) {
    child.path = !child.gone;
    child.owed += child.gone ? 0 : child.queued;
    child.drop_queue();
  }
  dirty_ = waits_ = go_ = false;
  unacked_.each([this](Numbered number, Channel channel, std::string_view bytes) {
    out_.put(DeliverRecord{options_.self, number, channel, std::string(bytes)});
  });
}

bool UpwardRecords::has_some_to_send() const {
  return !unacked_.all_sent() || std::any_of(children_.begin(), children_.end(),
                                             [](const auto& each) { return !each.second.queue.empty(); });
}

// Only answers are to be sent, and this shell's or those of a child of the view are still to come.
bool UpwardRecords::waits_for_answers() const {
  if (options_.answers.empty() || unacked_.is_urgent()) return false;
  for (const auto& [peer, child] : children_) {
    if (child.urgent > 0) return false;
  }
  auto lacks = [this](Id member) {
    auto found = children_.find(member);
    return found != children_.end() && !found->second.gone && found->second.queue.empty();
  };
  return unacked_.all_sent() || std::any_of(children_.members().begin(), children_.members().end(), lacks);
}

bool UpwardRecords::waited() {
  if (!waits_) return false;
  go_ = true;
  return true;
}

void UpwardRecords::send(std::string& out) {
  if (!has_some_to_send()) {
    waits_ = go_ = false;
    return;
  }
  if (!go_ && waits_for_answers()) {
    if (!std::exchange(waits_, true)) out_.put(WaitForMore{});
    return;
  }
  waits_ = false;
  go_ = true;
  while (out.size() < options_.limits.write && send_next(out)) {
  }
}

// Sends one record of the origin whose turn it is: this shell's, then each child's.
bool UpwardRecords::send_next(std::string& out) {
  auto waits = [](const auto& each) { return !each.second.queue.empty(); };
  auto begin = last_ ? children_.after(*last_) : children_.begin();
  auto next = std::find_if(begin, children_.end(), waits);
  if (next == children_.end()) {
    if (unacked_.send_next(out)) {
      last_ = std::nullopt;
      return true;
    }
    next = std::find_if(children_.begin(), begin, waits);
    if (next == begin) return false;
  }
  auto& [peer, child] = *next;
  std::size_t size = child.take_first(out);
  last_ = peer;
  if (child.gone) return true;
  dirty_ = true;
  child.owed += size;
  return true;
}

// ---- acknowledgements of records -----------------------------------------------------------------

// How many bytes of answers may stay without a note to their origin: it has room for one more record.
std::size_t UpwardRecords::most_unnoted() const {
  constexpr std::size_t kMostUnnoted = std::size_t{16} << 10;
  return std::min(kMostUnnoted,
                  options_.limits.window - std::min(options_.limits.window, kHead + options_.limits.record));
}

void UpwardRecords::taken(Id origin, Numbered number) {
  if (origin == options_.self) {
    (void)own_taken(std::min(number, unacked_.last()));
  } else {
    bool any = false;
    while (auto credit = origins_.take(origin, number)) {
      any = true;
      BulkChild* child = children_.linked(credit->to.peer, credit->to.link);
      if (child != nullptr) child->owed += credit->bytes;
    }
    if (any && origins_.note_is_due(origin, most_unnoted())) note_taken(origin, origins_.taken(origin));
  }
}

Result<void> UpwardRecords::take_note(const Taken& note) {
  if (note.origin == options_.self) return own_taken(note.number);
  note_taken(note.origin, note.number);
  return {};
}

void UpwardRecords::note_taken(Id origin, Numbered number) {
  auto route = origins_.route(origin);
  BulkChild* child = route ? children_.linked(route->peer, route->link) : nullptr;
  if (child == nullptr || number == 0) return;  // its records will come another way, and the note with them
  Numbered& last = child->taken[origin];
  last = std::max(last, number);
}

// ---- broadcast records ------------------------------------------------------------------

namespace {

// Ends may exceed the window.
constexpr std::size_t kEnds = kMaxBroadcastChannels * kHead;

}  // namespace

// ---- the leader's ------------------------------------------------------------------------

Result<bool> BroadcastRecords::broadcast(Channel channel, std::string_view bytes) {
  if (!options_.leads()) return Error{EPERM, "only the leader broadcasts"};
  CHECK_OK(check_record(options_.limits, store_.ended(), channel, bytes));
  std::size_t size = kHead + bytes.size();
  if (store_.bytes() + size > options_.limits.broadcast) {
    wants_ = size;
    return false;
  }
  add(BulkKind::data, channel, bytes);
  return true;
}

Result<void> BroadcastRecords::end(Channel channel) {
  if (!options_.leads()) return Error{EPERM, "only the leader broadcasts"};
  if (store_.ended().contains(channel)) return Error{EPIPE, fmt::format("channel {}: it has ended", channel)};
  if (store_.ended().size() == kMaxBroadcastChannels) {
    return Error{ENOSPC, fmt::format("channel {}: {} channels have ended; no more are allowed", channel,
                                     kMaxBroadcastChannels)};
  }
  add(BulkKind::end, channel, {});
  return {};
}

void BroadcastRecords::add(BulkKind kind, Channel channel, std::string_view bytes) {
  Head head{kind, channel, store_.stable(), store_.have() + 1, static_cast<std::uint32_t>(bytes.size())};
  out_.put(Announce{head.number, channel, store_.add(head, bytes).bytes});
}

// ---- what comes from above ---------------------------------------------------------------

Result<void> BroadcastRecords::take(const BulkRecord& record) {
  if (cut_off_) return {};
  const Head& head = record.head;
  if (head.kind == BulkKind::start) return start(record);
  if (!started_) return Error{EPROTO, "a broadcast record before a newcomer's start"};
  if (head.number != store_.have() + 1) {
    return Error{EPROTO, fmt::format("broadcast record {} after {}", head.number, store_.have())};
  }
  if (head.tag >= head.number)
    return Error{EPROTO, fmt::format("record {} is stable before it comes", head.number)};
  drop(head.tag);
  if (cut_off_) return {};
  if (store_.bytes() + record.whole.size() > options_.limits.broadcast + kEnds) {
    return Error{EPROTO, fmt::format("broadcast record {}: more than {} bytes that not all have", head.number,
                                     options_.limits.broadcast)};
  }
  const BroadcastStore::Kept& kept = store_.add(head, record.bytes);
  if (head.number > first_) out_.put(Announce{head.number, head.channel, kept.bytes});
  return {};
}

// Records up to the start's number are no longer available. A newcomer that begins after them does not need them.
// Any other shell that gets such a start is no longer in the view, as members never get one.
Result<void> BroadcastRecords::start(const BulkRecord& record) {
  std::vector<Channel> ended = TRY(ended_channels(record.bytes));
  Numbered kept = record.head.number;
  if (started_ && term_of(kept) > term_of(store_.have())) return start_anew(kept, ended), Result<void>();
  if (started_ && kept <= store_.have()) {
    return Error{EPROTO, fmt::format("a start after {} for a shell that has {}", kept, store_.have())};
  }
  if (started_ && kept > first_) {
    cut_off();
    return {};
  }
  store_.start_after(kept);
  if (std::exchange(started_, true)) return {};
  first_ = consumed_ = record.head.tag;
  announce_ends(ended, first_);
  return {};
}

// `last`: the number of the last of these ends, counted as records.
void BroadcastRecords::announce_ends(const std::vector<Channel>& ended, Numbered last) {
  Numbered number = last - std::min<Numbered>(last, ended.size());
  for (Channel channel : ended) {
    ++number;
    if (store_.ended().contains(channel)) continue;
    store_.end(channel);
    out_.put(Announce{number, channel, {}});
  }
}

// What the former leader has broadcast, and this shell has not got, will not come.
void BroadcastRecords::start_anew(Numbered base, const std::vector<Channel>& ended) {
  store_.start_anew_after(base);
  first_ = consumed_ = base;
  stable_ = std::max(stable_, base);
  announce_ends(ended, base);
}

void BroadcastRecords::lead(Numbered base) {
  started_ = true;
  start_anew(base, {});
}

void BroadcastRecords::cut_off() {
  if (!std::exchange(cut_off_, true)) out_.put(CutOff{});
}

// Keeps what the owner has not consumed. But if all members have taken it, this shell is no member.
void BroadcastRecords::drop(Numbered stable) {
  stable_ = std::max(stable_, stable);
  // The start of another leader comes as a record, perhaps after its notes.
  if (term_of(stable_) > term_of(store_.have())) return;
  if (started_ && stable_ > consumed_) cut_off();
  store_.drop(std::min(stable_, consumed_));
}

// ---- which shells have it -------------------------------------------------------------------------

void BroadcastRecords::consumed(Numbered number) {
  if (number > first_) store_.forget_former();
  consumed_ = std::max(consumed_, std::min(number, store_.have()));
}

void BroadcastRecords::all_have(Numbered number) {
  drop(number);
  if (wants_ == 0 || store_.bytes() + wants_ > options_.limits.broadcast) return;
  wants_ = 0;
  out_.put(BroadcastRoom{});
}

// ---- what goes down ----------------------------------------------------------------------

void BroadcastRecords::feed(BulkChild& child, std::string& out) const {
  if (!child.greeted || !started_) return;
  if (child.unstarted || child.fed < store_.stable()) {
    std::string ended;
    for (Channel channel : store_.ended()) append_channel(ended, channel);
    append_record(out, {BulkKind::start, 0, std::max(store_.have(), first_), store_.stable(), 0}, ended);
    child.fed = store_.stable();
    child.unstarted = false;
  }
  for (const BroadcastStore::Kept* each = nullptr; out.size() < options_.limits.write; ++child.fed) {
    each = store_.find(child.fed + 1);
    if (each == nullptr) break;
    append_record(out, each->head, each->bytes);
    child.stable_sent = std::max(child.stable_sent, each->head.tag);
  }
}

void BroadcastRecords::notify(BulkChild& child, std::string& out) const {
  if (!child.greeted || !started_ || store_.stable() <= child.stable_sent) return;
  child.stable_sent = store_.stable();
  append_note(out, Stable{child.stable_sent});
}

// ---- unacked records --------------------------------------------------------------------

Numbered UnackedRecords::add(Channel channel, std::string_view bytes, bool keep, bool is_answer) {
  records_.push_back(
      {bytes.empty() ? BulkKind::end : BulkKind::data, channel, bytes.size(), std::string(keep ? bytes : "")});
  bytes_ += kHead + bytes.size();
  if (!is_answer) last_urgent_ = last();
  return last();
}

void UnackedRecords::taken(Numbered number) {
  for (; first_ <= number && !records_.empty(); ++first_) {
    INVARIANT(bytes_ >= kHead + records_.front().size);
    bytes_ -= kHead + records_.front().size;
    records_.pop_front();
    next_ -= std::min<std::size_t>(next_, 1);
  }
}

// These channels' ends have been taken.
std::vector<Channel> UnackedRecords::ended_before() const {
  std::set<Channel> out = ended_;
  for (const Kept& each : records_) {
    if (each.kind == BulkKind::end) out.erase(each.channel);
  }
  return {out.begin(), out.end()};
}

void UnackedRecords::each(const std::function<void(Numbered, Channel, std::string_view bytes)>& call) const {
  const std::vector<Channel> ended = ended_before();
  Numbered number = first_ - ended.size();
  for (Channel channel : ended) call(number++, channel, {});
  for (const Kept& each : records_) call(number++, each.channel, each.bytes);
}

bool UnackedRecords::send_next(std::string& out) {
  if (all_sent()) return false;
  if (std::exchange(begins_, false)) {
    std::string ended;
    for (Channel channel : ended_before()) append_channel(ended, channel);
    append_record(out, {BulkKind::start, 0, tag_of(self_, attempt_), first_ + next_, 0}, ended);
    return true;
  }
  const Kept& each = records_[next_];
  append_record(out, {each.kind, each.channel, tag_of(self_, attempt_), first_ + next_, 0}, each.bytes);
  ++next_;
  return true;
}

// ---- store ------------------------------------------------------------------------------

const BroadcastStore::Kept& BroadcastStore::add(Head head, std::string_view bytes) {
  bytes_ += kHead + bytes.size();
  if (head.kind == BulkKind::end) end(head.channel);
  return records_.emplace_back(Kept{head, std::string(bytes)});
}

void BroadcastStore::drop(Numbered stable) {
  for (; stable_ < stable && !records_.empty(); ++stable_) {
    INVARIANT(bytes_ >= kHead + records_.front().bytes.size());
    bytes_ -= kHead + records_.front().bytes.size();
    records_.pop_front();
  }
}

void BroadcastStore::start_anew_after(Numbered stable) {
  for (Kept& each : records_) former_.push_back(std::move(each));
  start_after(stable);
}

void BroadcastStore::start_after(Numbered stable) {
  records_.clear();
  bytes_ = 0;
  stable_ = stable;
}

// ---- origin table -----------------------------------------------------------------------

Result<bool> OriginTable::came(const Head& head, Route from) {
  auto found = origins_.find(origin_of(head));
  if (found == origins_.end()) {
    if (origins_.size() >= most_) {
      return Error{ENOSPC, fmt::format("records of more than {} origins; see Limits::origins", most_)};
    }
    found = origins_.emplace(origin_of(head), Origin{}).first;
  }
  Origin& origin = found->second;
  if (attempt_of(head) < origin.attempt) return false;
  if (attempt_of(head) > origin.attempt) origin.came = 0;
  const bool is_start = head.kind == BulkKind::start;
  if (is_start ? origin.came > 0 : head.number <= origin.came) return false;
  origin.came = is_start ? head.number - 1 : head.number;
  origin.attempt = attempt_of(head);
  origin.route = from;
  return true;
}

std::optional<OriginTable::Route> OriginTable::route(Id origin) const {
  auto found = origins_.find(origin);
  if (found == origins_.end()) return std::nullopt;
  return found->second.route;
}

bool OriginTable::begin(Id origin, Numbered number) {
  Origin& of = origins_[origin];
  if (begins_ || std::exchange(of.known, true)) return false;
  of.delivered = of.taken = number - 1;
  return true;
}

OriginTable::Verdict OriginTable::judge(Id origin, Numbered number) {
  Origin& of = origins_[origin];
  if (!begins_ && number == 1) of.known = true;
  if (!begins_ && !of.known) return Verdict::ahead;
  if (number <= of.delivered) return Verdict::again;
  if (number > of.delivered + 1) return Verdict::ahead;
  of.delivered = number;
  return Verdict::next;
}

void OriginTable::delivered(Id origin, Numbered number, Route from, std::size_t bytes, bool is_answer) {
  origins_[origin].waiting.push_back({number, {from, bytes}, is_answer});
}

std::optional<OriginTable::Credit> OriginTable::take(Id origin, Numbered number) {
  auto found = origins_.find(origin);
  if (found == origins_.end()) return std::nullopt;
  Origin& of = found->second;
  if (of.waiting.empty() || of.waiting.front().number > number) return std::nullopt;
  Credit credit = of.waiting.front().credit;
  of.taken = of.waiting.front().number;
  if (of.waiting.front().is_answer) {
    of.unnoted_answers += credit.bytes;
  } else {
    of.unnoted_others = true;
  }
  of.waiting.pop_front();
  return credit;
}

bool OriginTable::note_is_due(Id origin, std::size_t most_answers) {
  Origin& of = origins_[origin];
  if (!of.unnoted_others && of.unnoted_answers <= most_answers) return false;
  of.unnoted_answers = 0;
  of.unnoted_others = false;
  return true;
}

Numbered OriginTable::taken(Id origin) const {
  auto found = origins_.find(origin);
  return found == origins_.end() ? 0 : found->second.taken;
}

}  // namespace nacre::bulk
