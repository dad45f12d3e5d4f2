// SPDX-License-Identifier: Apache-2.0
#include "plugins/control/viewers.hpp"

#include "job/options.hpp"

namespace nacre::plugins {

Result<Scrollback::Wanted> Viewers::read(const Json& arguments, std::uint64_t tasks) {
  Scrollback::Wanted out;
  JsonAt at = JsonAt::root(arguments);
  if (auto ranks = TRY(at.find("ranks"))) {
    auto named = value::Idset::parse(TRY(ranks->string()));
    if (!named) return ranks->error(named.error().message);
    if (auto last = named->last(); last && *last >= tasks)
      return invalid(fmt::format("no rank {}: the job has ranks 0-{}", *last, tasks - 1));
    out.ranks = *std::move(named);
  }
  if (auto streams = TRY(at.find("streams"))) {
    out.streams = {};
    for (const std::string& each : TRY(streams->strings())) {
      auto found = std::find_if(io::kStreams.begin(), io::kStreams.end(),
                                [&](io::Stream stream) { return io::name_of(stream) == each; });
      if (found == io::kStreams.end()) return streams->expected("stdout, stderr");
      out.streams.at(static_cast<std::size_t>(*found)) = true;
    }
  }
  if (auto tail = TRY(at.find("tail")); tail && tail->json() != "all") {
    if (tail->json() == "none")
      out.lines = 0;
    else if (tail->json().is_number())
      out.lines = static_cast<std::uint64_t>(TRY(tail->integer(0, static_cast<std::int64_t>(kMaxTail))));
    else
      return tail->expected("a number of lines, all or none");
  }
  if (auto since = TRY(at.find("since"))) out.since = TRY(since->number());
  if (auto follows = TRY(at.find("follows"))) out.rests = TRY(follows->boolean());
  return out;
}

void Viewers::attach(ClientId client, const control::ControlRequest& request, std::uint64_t tasks,
                     const Json& files) {
  auto wanted = read(request.arguments, tasks);
  if (!wanted) return link_.answer(client, request.id, wanted.error());
  Key key{client, request.id};
  auto least = static_cast<std::size_t>(std::clamp<std::uint64_t>(request.credit, 1, control::kMaxStreamData));
  const bool follows = wanted->rests;
  auto viewer = std::make_unique<Viewer>(kept_, *std::move(wanted), least);
  viewer->follows = follows;
  Json first{{"before", viewer->reader.before()}, {"tasks", tasks}};
  if (!files.empty()) first["files"] = files;
  link_.part(client, request.id, first);
  if (follows) {
    awaits_ = false;
    kept_.wait_for_reader(false);
    follower_ = client;
    for (std::string& each : std::exchange(messages_, {}))
      link_.part(client, request.id, {{"message", std::move(each)}});
  }
  if (serve(key, *viewer)) viewers_.emplace(key, std::move(viewer));
  note_room();
}

void Viewers::await_follower(std::function<void()> on_room) {
  awaits_ = true;
  on_room_ = std::move(on_room);
  kept_.wait_for_reader(true);
}

void Viewers::give_up_follower() {
  awaits_ = false;
  reports_.clear();
  kept_.wait_for_reader(false);
  note_room();
}

void Viewers::report(const std::string& report, std::string_view text) {
  if (!awaits_ && !follower_) return;
  for (std::size_t at = 0; at < text.size(); at += control::kMaxStreamData)
    reports_.emplace_back(report, std::string(text.substr(at, control::kMaxStreamData)));
  serve_all();
}

// Sends as much as there is room for.
void Viewers::send_reports(const Key& key) {
  const auto& [client, id] = key;
  while (!reports_.empty()) {
    auto& [report, text] = reports_.front();
    const std::size_t size = std::min(text.size(), link_.room(client, id));
    if (size == 0 || !link_.put(client, {id, report, text.substr(0, size), Json::object()})) return;
    text.erase(0, size);
    if (text.empty()) reports_.pop_front();
  }
}

void Viewers::message(std::string line) {
  constexpr std::size_t kMostMessages = 1000;
  if (awaits_ && messages_.size() < kMostMessages) return messages_.push_back(std::move(line));
  for (const auto& [key, viewer] : viewers_) {
    if (viewer->follows) link_.part(key.first, key.second, {{"message", line}});
  }
}

bool Viewers::full() const {
  const bool is_much = kept_.size() >= Scrollback::kQueue / 2;
  was_full_ = is_much && (awaits_ || std::any_of(viewers_.begin(), viewers_.end(), [](const auto& each) {
                            return each.second->follows && each.second->reader.is_last();
                          }));
  return was_full_;
}

void Viewers::note_room() {
  if (was_full_ && !full() && on_room_) on_room_();
}

void Viewers::has_room(ClientId client, std::uint64_t id) {
  auto found = viewers_.find({client, id});
  if (found == viewers_.end()) return;
  found->second->waits = false;
  if (!serve(found->first, *found->second)) viewers_.erase(found);
  note_room();
}

void Viewers::gone(ClientId client) {
  std::erase_if(viewers_, [client](const auto& each) { return each.first.first == client; });
  if (follower_ == client) follower_.reset();
  note_room();
}

void Viewers::put(const io::Batch& batch) {
  kept_.put(batch);
  serve_all();
}

void Viewers::all_out() {
  is_all_out_ = true;
  serve_all();
}

void Viewers::ended(int code, std::string report) {
  is_all_out_ = true;
  if (!code_) code_ = code;
  has_ended_ = true;
  report_ = std::move(report);
  serve_all();
}

void Viewers::serve_all() {
  std::erase_if(viewers_, [this](const auto& each) { return !serve(each.first, *each.second); });
}

bool Viewers::serve(const Key& key, Viewer& viewer) {
  const auto& [client, id] = key;
  if (viewer.follows) send_reports(key);
  while (!viewer.waits && !viewer.has_all) {
    auto piece = next(key, viewer);
    if (piece) {
      viewer.waits = !send(key, viewer, *piece);
      continue;
    }
    if (!is_all_out_) return true;
    viewer.has_all = true;
    report_missed(key, viewer);
    for (io::Stream stream : io::kStreams) link_.put_end(client, {id, std::string(io::name_of(stream))});
  }
  if (!viewer.has_all) return true;
  if (viewer.follows && (!has_ended_ || !reports_.empty())) return true;
  if (!code_) code_ = link_.code_of_tasks();
  if (!code_) return true;
  Json answer{{"code", *code_}};
  if (viewer.follows && !report_.empty()) answer["report"] = report_;
  link_.answer(client, id, std::move(answer));
  return false;
}

// The part that there is room for, unless that cuts a line that only has to wait.
std::optional<Scrollback::Piece> Viewers::next(const Key& key, Viewer& viewer) {
  std::size_t room = std::min(link_.room(key.first, key.second), control::kMaxStreamData);
  auto piece = viewer.reader.next(std::max(room, viewer.least));
  if (!piece || piece->text.size() <= room || room == 0) return piece;
  auto shorter = viewer.reader.next(room);
  return shorter->text.back() == '\n' || room >= viewer.least ? shorter : piece;
}

bool Viewers::send(const Key& key, Viewer& viewer, const Scrollback::Piece& piece) {
  const auto& [client, id] = key;
  if (link_.room(client, id) >= piece.text.size()) report_missed(key, viewer);
  control::StreamData data{
      id, std::string(io::name_of(piece.stream)), piece.text, {{"rank", piece.rank}, {"time", piece.time}}};
  if (piece.continues) data.members["continues"] = true;
  if (piece.open) data.members["open"] = true;
  if (!link_.put(client, data)) return false;
  viewer.reader.pass(piece);
  return true;
}

// Reports missed bytes before what follows them.
void Viewers::report_missed(const Key& key, Viewer& viewer) {
  Scrollback::Missed missed = viewer.reader.missed();
  if (missed.bytes == 0) return;
  link_.part(key.first, key.second, {{"missed", {{"lines", missed.lines}, {"bytes", missed.bytes}}}});
}

// ---- scrollback -------------------------------------------------------------------------

namespace {

// Looks at sixteen bytes at a time: a job that writes fast must not wait for this.
std::uint64_t lines_in(std::string_view text) {
  using Bytes = std::uint8_t __attribute__((vector_size(16)));
  constexpr std::size_t kMostRounds = 255;  // this many counts fit into a byte
  std::uint64_t out = 0;
  while (text.size() >= sizeof(Bytes)) {
    std::size_t rounds = std::min(text.size() / sizeof(Bytes), kMostRounds);
    Bytes sums{};
    for (std::size_t round = 0; round < rounds; ++round) {
      Bytes bytes;
      std::memcpy(&bytes, text.data() + round * sizeof bytes, sizeof bytes);
      sums -= static_cast<Bytes>(bytes == static_cast<std::uint8_t>('\n'));
    }
    for (std::size_t each = 0; each < sizeof(Bytes); ++each) out += sums[each];
    text.remove_prefix(rounds * sizeof(Bytes));
  }
  return out + static_cast<std::uint64_t>(std::count(text.begin(), text.end(), '\n'));
}

}  // namespace

Result<std::size_t> Scrollback::size_of(const job::Options& options) {
  std::size_t keep = kUsual;
  auto option = options.at("attach");
  if (!option) return keep;
  CHECK_OK(option->only_keys({"scrollback"}));
  auto size = TRY(option->find("scrollback"));
  if (!size) return keep;
  keep = size->json() == "none" ? 0 : TRY(job::size_option(*size));
  if (keep > kMost) return size->expected(fmt::format("none, or at most {} bytes", kMost));
  return keep;
}

void Scrollback::put(const io::Batch& batch) {
  if (batch.empty()) return;
  if (most() == 0) {
    gone_ += batch.size();
    return;
  }
  Piece& piece = pieces_.emplace_back();
  piece.rank = batch.source->rank;
  piece.stream = batch.source->stream;
  piece.time = batch.time;
  piece.continues = batch.continues;
  piece.open = batch.open;
  piece.text.reserve(batch.size());
  piece.text.append(batch.head).append(batch.body);
  size_ += piece.text.size() + kPieceCost;
  shorten();
}

std::string Scrollback::text(std::size_t most, bool labels) const {
  std::size_t first = pieces_.size();
  for (std::size_t bytes = 0; first > 0 && bytes < most; --first) bytes += pieces_[first - 1].text.size();
  std::string out;
  for (; first < pieces_.size(); ++first) {
    const Piece& piece = pieces_[first];
    std::string_view left = std::string_view(piece.text).substr(first == 0 ? first_offset_ : 0);
    while (!left.empty()) {
      std::size_t size = std::min(left.find('\n'), left.size() - 1) + 1;
      if (labels) out += fmt::format("{}: ", piece.rank);
      out.append(left.substr(0, size));
      left.remove_prefix(size);
    }
    if (labels && out.back() != '\n') out += '\n';
  }
  return out;
}

void Scrollback::shorten() {
  while (size_ > most() && !pieces_.empty()) {
    const Piece& first = pieces_.front();
    std::size_t over = size_ - most();
    std::size_t newline = std::string::npos;
    if (first.text.size() - first_offset_ > over) newline = first.text.find('\n', first_offset_ + over - 1);
    drop_first(newline == std::string::npos ? first.text.size() : newline + 1);
  }
}

// Drops bytes of the first piece up to this one.
void Scrollback::drop_first(std::size_t end) {
  const Piece& first = pieces_.front();
  bool is_whole = end == first.text.size();
  for (Reader* each : readers_) {
    if (each->number_ != first_ || each->offset_ >= end) continue;
    std::string_view lost = std::string_view(first.text).substr(each->offset_, end - each->offset_);
    if (each->wants(first)) {
      each->missed_.lines += lines_in(lost);
      each->missed_.bytes += lost.size();
      each->has_missed_ = true;
      each->begun_.clear();
    }
    each->offset_ = end;
  }
  std::size_t bytes = end - first_offset_;
  gone_ += bytes;
  size_ -= bytes + (is_whole ? kPieceCost : 0);
  first_offset_ = end;
  if (!is_whole) return;
  for (Reader* each : readers_) {
    if (each->number_ == first_) {
      ++each->number_;
      each->offset_ = 0;
    }
  }
  pieces_.pop_front();
  ++first_;
  first_offset_ = 0;
}

// ---- a reader ------------------------------------------------------------------

Scrollback::Reader::Reader(Scrollback& from, Wanted wanted) : from_(from), wanted_(std::move(wanted)) {
  start();
  from_.readers_.push_back(this);
}

Scrollback::Reader::~Reader() {
  std::erase(from_.readers_, this);
  from_.shorten();
}

bool Scrollback::Reader::wants(const Piece& piece) const {
  return wanted_.streams.at(static_cast<std::size_t>(piece.stream)) &&
         (!wanted_.ranks || wanted_.ranks->contains(piece.rank));
}

void Scrollback::Reader::start() {
  number_ = from_.first_;
  offset_ = from_.first_offset_;
  if (wanted_.lines) start_at_lines(*wanted_.lines);
  while (wanted_.since && number_ < from_.last() && from_.piece(number_).time < *wanted_.since) {
    ++number_;
    offset_ = 0;
  }
  before_ = from_.gone_;
  for (std::uint64_t each = from_.first_; each < number_; ++each) before_ += from_.piece(each).text.size();
  if (number_ > from_.first_) before_ -= from_.first_offset_;
  before_ += offset_ - (number_ == from_.first_ ? from_.first_offset_ : 0);
}

// Goes back from the end until it has passed that many beginnings of lines.
void Scrollback::Reader::start_at_lines(std::uint64_t lines) {
  number_ = from_.last();
  offset_ = 0;
  for (std::uint64_t each = from_.last(); lines > 0 && each-- > from_.first_;) {
    const Piece& piece = from_.piece(each);
    if (!wants(piece)) continue;
    std::size_t begin = each == from_.first_ ? from_.first_offset_ : 0;
    std::string_view text = std::string_view(piece.text).substr(begin);
    for (std::size_t end = text.size(); lines > 0 && end > 0;) {
      std::size_t newline = end >= 2 ? text.rfind('\n', end - 2) : std::string_view::npos;
      end = newline == std::string_view::npos ? 0 : newline + 1;
      if (end > 0 || begin > 0 || !piece.continues) --lines;
      number_ = each;
      offset_ = begin + end;
    }
  }
}

std::optional<Scrollback::Piece> Scrollback::Reader::next(std::size_t most) {
  for (; number_ < from_.last(); ++number_, offset_ = 0) {
    const Piece& piece = from_.piece(number_);
    if (offset_ >= piece.text.size() || !wants(piece)) continue;
    bool continues = offset_ == 0 ? piece.continues : piece.text[offset_ - 1] != '\n';
    if (continues && !wanted_.rests &&
        !begun_.contains({piece.rank, piece.stream})) {  // the line's beginning is not kept
      std::size_t newline = piece.text.find('\n', offset_);
      std::size_t end = std::min(newline, piece.text.size() - 1) + 1;
      if (has_missed_) {
        missed_.bytes += end - offset_;
        missed_.lines += newline == std::string::npos ? 0 : 1;
      }
      offset_ = end;
      if (end == piece.text.size()) continue;
      continues = false;
    }
    std::string_view text = std::string_view(piece.text).substr(offset_, most);
    if (text.empty()) return std::nullopt;
    bool is_last = offset_ + text.size() == piece.text.size();
    if (std::size_t newline = text.rfind('\n'); !is_last && newline != std::string_view::npos)
      text = text.substr(0, newline + 1);
    bool open = is_last ? piece.open : text.back() != '\n';
    return Piece{piece.rank, piece.stream, piece.time, std::string(text), continues, open};
  }
  return std::nullopt;
}

void Scrollback::Reader::pass(const Piece& piece) {
  offset_ += piece.text.size();
  if (piece.open)
    begun_.insert({piece.rank, piece.stream});
  else
    begun_.erase({piece.rank, piece.stream});
}

// ---- viewer link ------------------------------------------------------------------------

Viewers::Link viewer_link(const std::function<control::ControlServer*()>& server,
                          std::function<std::optional<int>()> code_of_tasks) {
  using ClientId = Viewers::ClientId;
  Viewers::Link link;
  link.room = [server](ClientId client, std::uint64_t id) {
    auto* there = server();
    return there != nullptr ? there->room(client, id) : 0;
  };
  link.put = [server](ClientId client, const control::StreamData& data) {
    auto* there = server();
    return there == nullptr || there->put(client, data);
  };
  link.put_end = [server](ClientId client, const control::StreamEnd& end) {
    if (auto* there = server()) there->put_end(client, end);
  };
  link.part = [server](ClientId client, std::uint64_t id, Json part) {
    if (auto* there = server()) there->answer_part(client, id, std::move(part));
  };
  link.answer = [server](ClientId client, std::uint64_t id, const Result<Json>& value) {
    if (auto* there = server()) there->answer(client, id, value);
  };
  link.code_of_tasks = std::move(code_of_tasks);
  return link;
}

}  // namespace nacre::plugins
