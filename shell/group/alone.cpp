// SPDX-License-Identifier: Apache-2.0
#include "group/alone.hpp"

#include "base/bytes.hpp"

namespace nacre::group {

Result<const transport::Secret*> Alone::secret() {
  if (!secret_) secret_ = TRY(transport::Secret::generate());
  return &*secret_;
}

void Alone::gather(std::string_view /*name*/, std::string mine, WhenGathered done) {
  Gathered all;
  all[std::move(mine)].insert(rank_);
  done(std::move(all));
}

void Alone::raise(const JobException& exception) {
  JobException mine = exception;
  mine.origin = rank_;
  if (callbacks_.on_exception) callbacks_.on_exception(mine);
}

// Those that name other shells are refused; all others are entries as soon as they are requested.
void Alone::request(overlay::RequestBody body, WhenAnswered done) {
  if (std::holds_alternative<overlay::Shrink>(body))
    return done(Error{EINVAL, "shrink: this is the job's only shell"});
  if (std::holds_alternative<overlay::Grow>(body))
    return done(invalid("grow: this job has one shell, which others cannot join"));
  overlay::Entry entry;
  std::visit(
      [&]<typename T>(T& asked) {
        if constexpr (std::is_constructible_v<overlay::EntryBody, T>) entry.body = std::move(asked);
      },
      body);
  if (done) done(entry);
  if (auto tell = told_of(entry, rank_)) tell(callbacks_);
}

Result<void> Alone::announce(std::string_view topic, std::string_view bytes) {
  CHECK_OK(pieces_of(topic, bytes, rank_));
  if (callbacks_.on_announcement) callbacks_.on_announcement(topic, bytes);
  return {};
}

// Other shells of the job, if it has any, take no part.
void Alone::exec(value::ExecOrder order, WhenOrdered done) {
  value::ExecAnswer answer;
  value::ExecShare mine{0, {}, std::move(order.command), order.kind};
  bool is_named = false;
  for (auto& [shell, ranks] : order.shares) {
    is_named = is_named || shell == rank_;
    if (shell == rank_ || !order.strict) mine.ranks.insert(ranks);
    if (shell != rank_) answer.lost.insert(shell);
  }
  if (!order.strict) answer.lost = {};
  if (!answer.lost.empty()) return done(std::move(answer));
  answer.number = mine.number = next_order_++;
  done(answer);
  if ((is_named || !mine.ranks.empty()) && callbacks_.on_exec) callbacks_.on_exec(mine);
}

void Alone::tasks_started(const value::Idset& tasks) {
  if (callbacks_.on_tasks) callbacks_.on_tasks(tasks, {});
}

void Alone::tasks_ended(const Ended& ended) {
  if (callbacks_.on_tasks) callbacks_.on_tasks({}, {ended});
}

// ---- announcements ----------------------------------------------------------------------

namespace {

// Which piece it is: a shell that joins while pieces are on their way does not get the first ones.
constexpr char kOnly = '.';
constexpr char kFirst = '(';
constexpr char kInside = '+';
constexpr char kLast = ')';
constexpr std::size_t kPieceHead = sizeof(Rank) + 1;  // bytes

}  // namespace

Result<std::vector<overlay::Event>> pieces_of(std::string_view topic, std::string_view bytes, Rank origin) {
  if (bytes.size() > kMaxAnnounced) {
    return Error{EMSGSIZE,
                 fmt::format("{}: an announcement of {} bytes; at most {}", topic, bytes.size(), kMaxAnnounced)};
  }
  std::vector<overlay::Event> out;
  const bool is_one = bytes.size() <= kAnnouncedPiece;
  do {
    std::string_view piece = bytes.substr(0, kAnnouncedPiece);
    bytes.remove_prefix(piece.size());
    overlay::Event& each = out.emplace_back();
    each.name = topic;
    each.data.reserve(kPieceHead + piece.size());
    append_number(each.data, origin);
    each.data += is_one ? kOnly : out.size() == 1 ? kFirst : bytes.empty() ? kLast : kInside;
    each.data += piece;
  } while (!bytes.empty());
  return out;
}

std::optional<Announcement> Announcements::take(const overlay::Event& piece) {
  std::string_view data = piece.data;
  if (data.size() < kPieceHead) return std::nullopt;
  auto origin = take_number<Rank>(data);
  const char which = data[0];
  data.remove_prefix(1);
  if (which == kOnly) return Announcement{piece.name, std::string(data)};
  if (which == kFirst) begun_[origin].clear();
  auto begun = begun_.find(origin);
  if (begun == begun_.end()) return std::nullopt;
  begun->second += data;
  if (which != kLast && begun->second.size() < kMaxAnnounced) return std::nullopt;
  Announcement whole{piece.name, std::move(begun->second)};
  begun_.erase(begun);
  return whole;
}

}  // namespace nacre::group
