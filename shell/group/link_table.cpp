// SPDX-License-Identifier: Apache-2.0
#include "group/link_table.hpp"

#include <unistd.h>

#include "base/process_stat.hpp"
#include "base/signals.hpp"
#include "event/clock.hpp"
#include "group/first_words.hpp"
#include "overlay/wire.hpp"

namespace nacre::group {
namespace {

constexpr event::Seconds kIntroduction{10};  // for the first words and HELLO; also for the other end to close
constexpr event::Seconds kExpiry{1};         // how often these deadlines are checked

transport::LinkLimits limits() {
  transport::LinkLimits out;
  out.session.max_frame = overlay::kMaxFrame;
  return out;
}

}  // namespace

LinkTable::LinkTable(event::Loop& loop, Membership& membership, std::unique_ptr<transport::Credentials> credentials,
                     Callbacks callbacks)
    : loop_(loop),
      membership_(membership),
      callbacks_(std::move(callbacks)),
      credentials_(std::move(credentials)) {}

LinkTable::~LinkTable() = default;

Result<std::unique_ptr<LinkTable>> LinkTable::create(event::Loop& loop, Membership& membership,
                                                     Callbacks callbacks) {
  auto credentials = TRY(transport::Credentials::create(membership.job.f58_plain(), membership.secret.copy()));
  std::unique_ptr<LinkTable> out(new LinkTable(loop, membership, std::move(credentials), std::move(callbacks)));
  out->timer_ = TRY(event::Timer::create(loop, [self = out.get()] { self->expire(); }));
  out->timer_->unref();
  CHECK_OK(out->listen(std::move(membership.sockets)));
  return out;
}

Result<void> LinkTable::listen(std::vector<transport::BoundSocket> sockets) {
  for (transport::BoundSocket& socket : sockets) {
    transport::Listener::Options options;
    options.link = limits();
    transport::Listener::Callbacks callbacks;
    callbacks.on_link = [this](transport::OwnedLink link) { add(std::move(link), std::nullopt); };
    callbacks.on_refused = callbacks_.on_refused;
    listeners_.push_back(
        TRY(transport::Listener::create(loop_, *credentials_, std::move(socket), options, std::move(callbacks))));
  }
  return {};
}

// ---- called by the owner -------------------------------------------------------------------

Result<void> LinkTable::dial(Rank peer) {
  transport::Dialer::Options options;
  options.link = limits();
  auto done = [this, peer](Result<transport::OwnedLink> link) { dialled(peer, std::move(link)); };
  dialers_[peer] = TRY(in(
      fmt::format("shell {}", peer),
      transport::Dialer::create(loop_, *credentials_, membership_.directory.find(peer), options, std::move(done))));
  return {};
}

Result<void> LinkTable::send(overlay::LinkName to, std::string_view message) {
  Place wire = find(to);
  return wire == link_table_.end() ? Result<void>() : wire->link->send(message);
}

bool LinkTable::has_room(overlay::LinkName to) {
  Place wire = find(to);
  return wire == link_table_.end() || wire->link->has_room();
}

std::size_t LinkTable::write(overlay::LinkName to, transport::StreamId stream, std::string_view bytes) {
  Place wire = find(to);
  return wire == link_table_.end() ? 0 : wire->link->write(stream, bytes);
}

Result<void> LinkTable::grant(overlay::LinkName to, transport::StreamId stream, std::size_t bytes) {
  Place wire = find(to);
  return wire == link_table_.end() ? Result<void>() : wire->link->grant(stream, bytes);
}

void LinkTable::hang_up(overlay::LinkName link) {
  if (link.side == overlay::Side::up) dialers_.erase(link.peer);
  Place wire = find(link);
  if (wire != link_table_.end()) close(*wire);
}

void LinkTable::close(Wire& wire) {
  wire.closing = true;
  wire.deadline = loop_.now() + kIntroduction.count();
  wire.link->finish();
  timer_->start(kExpiry, kExpiry);
}

void LinkTable::half_close(overlay::LinkName link) {
  Place wire = find(link);
  if (wire != link_table_.end()) wire->link->finish();
}

void LinkTable::give_up(overlay::LinkName link) {
  if (link.side == overlay::Side::up) dialers_.erase(link.peer);
  Place wire = find(link);
  if (wire != link_table_.end()) link_table_.erase(wire);
}

void LinkTable::hold(value::Idset peers) {
  held_ = std::move(peers);
  for (Wire& wire : link_table_) hold_if_asked(wire);
}

void LinkTable::hold_if_asked(Wire& wire) const {
  if (wire.name) wire.link->hold(held_.contains(wire.name->peer));
}

void LinkTable::keep_alive(KeepAlive& sender) {
  keep_alive_ = &sender;
  for (Wire& wire : link_table_) share(wire);
}

// Beats go out only while a handler runs, and none does before HELLO has been sent.
void LinkTable::share(Wire& wire) {
  if (keep_alive_ != nullptr && wire.name && !wire.closing)
    wire.share = KeepAlive::Share(*keep_alive_, *wire.link, wire.name->side);
}

void LinkTable::stop(std::optional<overlay::LinkName> but) {
  kept_ = but;
  listeners_.clear();
  dialers_.clear();
  for (Wire& wire : link_table_) {
    if (!wire.closing && !(kept_ && wire.name == kept_)) close(wire);
  }
}

std::optional<UniqueFd> LinkTable::release(overlay::LinkName link) {
  Place wire = find(link);
  if (wire == link_table_.end()) return UniqueFd();
  if (wire->link->queued() > 0) return std::nullopt;
  UniqueFd socket = wire->link->release();
  link_table_.erase(wire);
  return socket;
}

bool LinkTable::idle(const std::function<bool(Rank)>& gone) const {
  return std::all_of(link_table_.begin(), link_table_.end(), [&](const Wire& wire) {
    if (!wire.name) return false;
    if (wire.name == kept_) return true;
    return wire.closing && (wire.name->side == overlay::Side::down || gone(wire.name->peer));
  });
}

// ---- links that come and go ----------------------------------------------------------------

LinkTable::Place LinkTable::find(overlay::LinkName name) {
  return std::find_if(link_table_.begin(), link_table_.end(),
                      [&](const Wire& wire) { return wire.name == name && !wire.closing; });
}

void LinkTable::dialled(Rank peer, Result<transport::OwnedLink> link) {
  auto dialer = std::move(dialers_[peer]);  // it may be running its own callback
  dialers_.erase(peer);
  overlay::LinkName name{peer, overlay::Side::up};
  if (!link) return callbacks_.on_unlinked(name, link.error());
  add(std::move(*link), name);
}

void LinkTable::add(transport::OwnedLink link, std::optional<overlay::LinkName> name) {
  Place wire = link_table_.emplace(link_table_.end());
  wire->link = std::move(link);
  wire->name = name;
  wire->deadline = loop_.now() + kIntroduction.count();
  transport::Link::Callbacks callbacks;
  callbacks.on_frame = [this, wire](std::string_view frame) { receive(wire, frame); };
  callbacks.on_bulk = [this, wire](transport::StreamId stream, std::string_view bytes) {
    receive_bulk(wire, stream, bytes);
  };
  callbacks.on_credit = [this, wire](transport::StreamId stream, std::size_t /*room*/) {
    if (wire->name && !wire->closing) callbacks_.on_credit(*wire->name, stream);
  };
  callbacks.on_room = [this, wire] {
    if (wire->name && !wire->closing) callbacks_.on_room(*wire->name);
  };
  callbacks.on_finished = [this, wire] { finished(wire); };
  callbacks.on_closed = [this, wire](const std::optional<Error>& why) { closed(wire, why); };
  wire->link->serve(std::move(callbacks));
  if (!name) return timer_->start(kExpiry, kExpiry);
  FirstWords words{membership_.version, kProtocol, membership_.rank, name->peer};
  if (Result<void> sent = wire->link->send(words.text()); !sent) return closed(wire, sent.error());
  if (!held_.empty()) hold_if_asked(*wire);
  share(*wire);
  callbacks_.on_linked(*name);
}

void LinkTable::receive(Place wire, std::string_view frame) {
  if (wire->closing) return;
  if (are_first_words(frame)) {
    Result<void> introduced = introduce(wire, frame);
    return introduced ? void() : refuse(wire, introduced.error());
  }
  auto message = overlay::decode(frame);
  if (!message) return refuse(wire, message.error());
  if (!wire->name) {
    Result<void> named = name_it(wire, *message);
    if (!named) return refuse(wire, named.error());
  }
  callbacks_.on_message(*wire->name, *message);
}

void LinkTable::receive_bulk(Place wire, transport::StreamId stream, std::string_view bytes) {
  if (wire->closing) return;
  if (!wire->name) return refuse(wire, invalid("bulk data before it has introduced itself"));
  callbacks_.on_bulk(*wire->name, stream, bytes);
}

Result<void> LinkTable::introduce(Place wire, std::string_view frame) {
  FirstWords words = TRY(FirstWords::parse(frame));
  bool dialled = wire->name.has_value();
  if (wire->introduced) return invalid("it has introduced itself twice");
  wire->introduced = true;
  if (words.protocol != kProtocol) {
    // The other end gets this shell's first words too, so that both can report what is wrong.
    FirstWords mine{membership_.version, kProtocol, membership_.rank, words.from};
    if (!dialled) static_cast<void>(wire->link->send(mine.text()));
    Error why =
        invalid(fmt::format("shell {} is of nacre {} with protocol {}, and this one of {} with protocol {}: "
                            "install the same version on all hosts",
                            words.from, words.version, words.protocol, membership_.version, kProtocol));
    callbacks_.on_misfit(words.from, dialled, why);
    return why;
  }
  if (words.to != membership_.rank) {
    return invalid(
        fmt::format("shell {} looks for shell {}, and this is {}", words.from, words.to, membership_.rank));
  }
  if (words.from == membership_.rank) return invalid("a link leads back to this shell");
  return {};
}

Result<void> LinkTable::name_it(Place wire, const overlay::Message& message) {
  const auto* hello = std::get_if<overlay::Hello>(&message.body);
  if (!wire->introduced || hello == nullptr) return invalid("it has not introduced itself");
  if (hello->from == membership_.rank) return invalid("a link leads back to this shell");
  overlay::LinkName name{hello->from, overlay::Side::down};
  if (Place before = find(name); before != link_table_.end()) {
    link_table_.erase(before);
    callbacks_.on_unlinked(name, Error{ECONNRESET, "the shell has made another link"});
  }
  wire->name = name;
  if (!held_.empty()) hold_if_asked(*wire);
  share(*wire);
  callbacks_.on_linked(name);
  return {};
}

void LinkTable::finished(Place wire) {
  if (wire->closing || !wire->name || !keep_half_closed_) wire->link->finish();
}

void LinkTable::closed(Place wire, const std::optional<Error>& why) {
  Wire gone = std::move(*wire);  // it may be running its own callback
  link_table_.erase(wire);
  if (!gone.closing && gone.name) {
    callbacks_.on_unlinked(*gone.name, why ? *why : Error{ECONNRESET, gone.link->peer() + ": has closed the link"});
  }
  callbacks_.on_closed();
}

void LinkTable::refuse(Place wire, const Error& why) {
  if (callbacks_.on_refused) callbacks_.on_refused(in(wire->link->peer(), why));
  auto name = wire->name;
  close(*wire);
  if (name) callbacks_.on_unlinked(*name, why);
}

void LinkTable::expire() {
  bool some = false;
  for (Place wire = link_table_.begin(); wire != link_table_.end();) {
    Place next = std::next(wire);
    bool bounded = wire->closing || !wire->name;
    some = some || bounded;
    if (bounded && loop_.now() >= wire->deadline) link_table_.erase(wire);
    wire = next;
  }
  if (!some) timer_->stop();
  callbacks_.on_closed();
}

// ---- keep alive -------------------------------------------------------------------------

namespace {

constexpr int kQuietLooks = 5;  // without a call; then the thread waits for the next one

}  // namespace

Result<std::unique_ptr<KeepAlive>> KeepAlive::create(std::chrono::milliseconds interval,
                                                     std::function<std::string(value::Side)> beat) {
  std::unique_ptr<KeepAlive> out(new KeepAlive(interval, std::move(beat)));
  CallPage::own();         // made here, as the thread reads it
  SignalsBlocked blocked;  // signals are for the caller's thread
  pthread_t thread{};
  int code = ::pthread_create(&thread, nullptr, serve, out.get());
  if (code != 0) return system_error(code, "a thread that sends beats");
  out->thread_ = thread;
  CurrentCall::when_begun([raw = out.get()] { raw->begun(); });
  return out;
}

KeepAlive::~KeepAlive() {
  if (!thread_) return;
  CurrentCall::when_begun(nullptr);
  {
    std::lock_guard lock(mutex_);
    ending_ = true;
  }
  changed_.notify_all();
  ::pthread_join(*thread_, nullptr);
}

KeepAlive::Share::Share(KeepAlive& owner, transport::Link& link, value::Side side) : owner_(&owner, Leave{&link}) {
  std::lock_guard lock(owner.mutex_);
  owner.links_[&link] = side;
}

void KeepAlive::remove(transport::Link* link) {
  std::lock_guard lock(mutex_);
  links_.erase(link);
}

void KeepAlive::begun() {
  {
    std::lock_guard lock(mutex_);
    if (!std::exchange(waits_, false)) return;
  }
  changed_.notify_all();
}

void* KeepAlive::serve(void* self) {
  static_cast<KeepAlive*>(self)->run();
  return nullptr;
}

void KeepAlive::run() {
  std::unique_lock lock(mutex_);
  // The thread begins with looks: the first call comes soon, and then does not have to wake the thread.
  for (int quiet = 0; !ending_;) {
    if (quiet >= kQuietLooks) {
      waits_ = !CallPage::own().place().within_call();
      changed_.wait(lock, [this] { return !waits_ || ending_; });
      quiet = 0;
    }
    changed_.wait_for(lock, interval_ / 2, [this] { return ending_; });
    quiet = look() ? 0 : quiet + 1;
  }
}

// False: no call runs.
bool KeepAlive::look() {
  const CallPage& page = CallPage::own();
  CallPage::Place place = page.place();
  if (reported_ && place != reported_->place) report_return();
  if (!place.within_call()) return false;
  std::int64_t stuck = CallPage::clock() - page.moved_at();
  // The loop's own last beat may be an interval old. A process that waits for a file system that does not answer
  // may wait for ever.
  if (stuck < interval_.count() / 4 || process_state(::getpid()) == 'D') return true;
  for (const auto& [link, side] : links_) link->send_beside(beat_(side));
  if (stuck >= kFirstLine) report(page);
  return true;
}

void KeepAlive::report(const CallPage& page) {
  std::int64_t now = CallPage::clock();
  if (!reported_)
    reported_ = {page.place(), std::string(page.plugin()), std::string(page.topic()), page.moved_at(), now};
  if (now < reported_->next_line) return;
  reported_->next_line = now + kNextLine;
  LastLine line;
  line << "plugin '" << reported_->plugin << "' has been in " << reported_->topic << " for "
       << static_cast<int>((now - reported_->since) / 1000) << " s: the job waits for it";
  line.write();
}

void KeepAlive::report_return() {
  LastLine line;
  line << "plugin '" << reported_->plugin << "' goes on, after "
       << static_cast<int>((CallPage::clock() - reported_->since) / 1000) << " s in " << reported_->topic;
  line.write();
  reported_.reset();
}

}  // namespace nacre::group
