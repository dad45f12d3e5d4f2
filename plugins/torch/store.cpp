// SPDX-License-Identifier: Apache-2.0
#include "plugins/torch/store.hpp"

#include "base/bytes.hpp"
#include "base/text.hpp"

namespace nacre::plugins {
namespace {

using Kind = StoreRequest::Kind;

// Announcements; doc/protocol.md.
constexpr std::string_view kChanges = "torch.store";
constexpr std::string_view kAskKeys = "torch.store.ask";
constexpr std::string_view kKeys = "torch.store.keys";

constexpr std::size_t kBatch = std::size_t{8} << 20;    // bytes after which another one begins
constexpr std::size_t kStream = std::size_t{64} << 20;  // bytes, in each direction of a connection
constexpr std::size_t kMaxClients = 65536;

constexpr char kStopWaiting = 0, kWaitCancelled = 1;

// The keys of a change: its words without the values.
std::vector<std::string> keys_of(const StoreRequest& request) {
  if (request.kind != Kind::multi_set) return {request.words[0]};
  std::vector<std::string> out;
  for (std::size_t i = 0; i < request.words.size(); i += 2) out.push_back(request.words[i]);
  return out;
}

}  // namespace

TorchStore::TorchStore(plugin::Host& host, plugin::Plugin& plugin)
    : host_(host),
      plugin_(plugin),
      announcements_(
          host.on_announcement([this](std::string_view topic, std::string_view bytes) { receive(topic, bytes); })) {
}

Result<void> TorchStore::listen(std::uint16_t port) {
  sweep_ = TRY(event::Timer::create(
      host_.loop(), [this] { std::erase_if(clients_, [](const auto& each) { return each.second.is_over; }); }));
  sweep_->unref();
  port_ = TRY(LoopbackPort::open(host_.loop(), port,
                                 {[this] { return kMaxClients - std::min(kMaxClients, clients_.size()); },
                                  [this](UniqueFd connection) { connect(std::move(connection)); },
                                  [this](const std::string& why) {
                                    log(host_, plugin_, Level::warn,
                                        "the store of torch.distributed: {}: the connection is closed",
                                        escape_controls(why));
                                  }}));
  return {};
}

// ---- clients -----------------------------------------------------------------------------

void TorchStore::connect(UniqueFd connection) {
  const ClientId id = next_++;
  task::BufferedStream::Options options;
  options.writable = true;
  options.by_line = false;
  options.buffer_size = kStream;
  auto stream = task::BufferedStream::create(host_.loop(), std::move(connection), options,
                                             {[this, id] { serve(id); },
                                              [this, id] {
                                                if (auto client = clients_.find(id); client != clients_.end())
                                                  stop_waiting(id, client->second);
                                                clients_.erase(id);
                                              },
                                              {}});
  if (!stream) return port_->refuse(stream.error().message);
  clients_[id].stream = *std::move(stream);
}

// Takes the requests that have come, as many as it can now.
void TorchStore::serve(ClientId id) {
  auto place = clients_.find(id);
  if (place == clients_.end()) return;
  Client& client = place->second;
  while (is_complete_ && !client.held && !client.is_over && !is_behind()) {
    auto request = client.requests.next();
    if (!request) return end(id, client, request.error().message);
    if (*request) {
      take(id, client, **std::move(request));
      continue;
    }
    const std::string_view more = client.stream->read();
    if (more.empty()) break;
    client.requests.add(more);
  }
  send_changes();
}

// So many bytes of changes wait that no more requests are read.
bool TorchStore::is_behind() const { return batches_.size() > 1 && batches_.back().bytes.size() >= kBatch; }

void TorchStore::serve_all() {
  std::vector<ClientId> all;
  for (const auto& [id, client] : clients_) all.push_back(id);
  for (ClientId id : all) serve(id);
}

void TorchStore::take(ClientId id, Client& client, StoreRequest request) {
  std::string waited = std::exchange(client.waited, {});
  if (request.changes_keys()) {
    if (request.kind == Kind::queue_pop) client.waited = std::move(waited);
    return change(id, client, std::move(request));
  }
  if (client.changes > 0) return void(client.held = std::move(request));
  if (request.kind == Kind::wait) {
    if (request.words.size() == 1) client.waited = request.words[0];
    return wait(id, client, request.words);
  }
  if (request.kind == Kind::cancel_wait) {
    stop_waiting(id, client);
    return answer(id, client, std::string_view(&kWaitCancelled, 1));
  }
  answer(id, client, keys_.answer(request));
}

void TorchStore::wait(ClientId id, Client& client, const std::vector<std::string>& keys) {
  for (const std::string& each : keys) {
    if (keys_.has(each)) continue;
    waiting_[each].push_back(id);
    ++client.missing;
  }
  if (client.missing == 0 && !client.pop) answer(id, client, std::string_view(&kStopWaiting, 1));
}

void TorchStore::stop_waiting(ClientId id, Client& client) {
  client.pop.reset();
  if (std::exchange(client.missing, 0) == 0) return;
  for (auto each = waiting_.begin(); each != waiting_.end();) {
    std::erase(each->second, id);
    each = each->second.empty() ? waiting_.erase(each) : std::next(each);
  }
}

void TorchStore::answer(ClientId id, Client& client, std::string_view bytes) {
  if (client.is_over || bytes.empty()) return;
  Result<void> written = client.stream->write(bytes);
  if (!written && written.error().code == ENOSPC) end(id, client, "a client does not read what it has asked for");
}

// May be called within a call of the client's stream.
void TorchStore::end(ClientId id, Client& client, const std::string& why) {
  port_->refuse(why);
  stop_waiting(id, client);
  client.stream->hang_up();
  client.is_over = true;
  sweep_->start(event::Seconds(0));
}

// ---- changes -----------------------------------------------------------------------------

void TorchStore::change(ClientId id, Client& client, StoreRequest request) {
  const bool has_open = batches_.size() > (is_under_way_ ? 1 : 0) && batches_.back().bytes.size() < kBatch;
  if (!has_open) {
    batches_.emplace_back();
    append_number(batches_.back().bytes, std::uint32_t{host_.job().shell_rank});
    append_number(batches_.back().bytes, restarts_);
  }
  Batch& batch = batches_.back();
  encode_store_request(batch.bytes, request);
  batch.clients.push_back(id);
  ++client.changes;
}

// An announcement may come back before announce() returns.
void TorchStore::send_changes() {
  if (std::exchange(is_sending_, true)) return;
  while (!batches_.empty() && !is_under_way_) {
    is_under_way_ = true;
    Result<void> sent = host_.announce(kChanges, batches_.front().bytes);
    if (sent) continue;
    for (ClientId each : batches_.front().clients) {
      if (auto client = clients_.find(each); client != clients_.end())
        end(each, client->second, sent.error().message);
    }
    batches_.pop_front();
    is_under_way_ = false;
  }
  is_sending_ = false;
}

void TorchStore::receive(std::string_view topic, std::string_view bytes) {
  if (topic == kAskKeys) return give_keys(bytes);
  if (topic == kKeys && has_asked_ && !is_complete_) return receive_keys(bytes);
  if (topic != kChanges) return;
  if (is_complete_) {
    receive_changes(bytes);
  } else if (has_asked_) {
    early_.emplace_back(bytes);
  }
}

void TorchStore::receive_changes(std::string_view bytes) {
  constexpr std::size_t kHead = sizeof(std::uint32_t) + sizeof(std::uint64_t);
  if (bytes.size() < kHead) return;
  const bool is_own = take_number<std::uint32_t>(bytes) == host_.job().shell_rank;
  const auto restarts = take_number<std::uint64_t>(bytes);
  Batch own;
  if (is_own && is_under_way_) {
    own = std::move(batches_.front());
    batches_.pop_front();
    is_under_way_ = false;
  }
  if (restarts > keys_since_) {
    keys_ = {};
    keys_since_ = restarts;
  }
  for (std::size_t i = 0; restarts == keys_since_ && !bytes.empty(); ++i) {
    auto request = decode_store_request(bytes);
    if (!request) break;
    make(i < own.clients.size() ? std::optional(own.clients[i]) : std::nullopt, *std::move(request));
  }
  for (ClientId each : own.clients) {
    auto client = clients_.find(each);
    if (client == clients_.end() || client->second.changes > 0) continue;
    if (client->second.held) take(each, client->second, *std::exchange(client->second.held, {}));
    serve(each);
  }
  if (own.bytes.size() >= kBatch) serve_all();  // clients may have been held back
  send_changes();
}

// `own`: the client of this shell that has asked for the change.
void TorchStore::make(std::optional<ClientId> own, StoreRequest request) {
  const bool adds = request.kind != Kind::delete_key && request.kind != Kind::queue_pop;
  const std::vector<std::string> keys = adds ? keys_of(request) : std::vector<std::string>();
  StoreRequest again = request.kind == Kind::queue_pop ? request : StoreRequest();
  const bool is_empty = request.kind == Kind::queue_pop && !keys_.has(request.words[0]);
  Result<std::string> out = keys_.change(std::move(request));
  auto place = own ? clients_.find(*own) : clients_.end();
  if (place != clients_.end()) {
    Client& client = place->second;
    --client.changes;
    if (!out) {
      end(place->first, client, out.error().message);
    } else if (is_empty && client.waited == again.words[0]) {
      // Another client was faster: this one waits on.
      client.pop = std::move(again);
      wait(place->first, client, client.pop->words);
    } else {
      answer(place->first, client, *out);
    }
  }
  for (const std::string& each : keys) changed(each);
}

void TorchStore::changed(const std::string& key) {
  if (!keys_.has(key)) return;
  auto node = waiting_.extract(key);
  if (node.empty()) return;
  for (ClientId id : node.mapped()) {
    auto client = clients_.find(id);
    if (client == clients_.end() || client->second.missing == 0 || --client->second.missing > 0) continue;
    if (client->second.pop) {
      change(id, client->second, *std::exchange(client->second.pop, {}));
    } else {
      answer(id, client->second, std::string_view(&kStopWaiting, 1));
    }
  }
}

void TorchStore::begin_again(std::uint64_t restarts) {
  clients_.clear();
  waiting_.clear();
  restarts_ = restarts;
  if (restarts <= keys_since_) return;
  keys_ = {};
  keys_since_ = restarts;
}

// ---- shells that join --------------------------------------------------------------------

Result<void> TorchStore::catch_up() {
  is_complete_ = false;
  std::string asker;
  append_number(asker, host_.job().shell_rank);
  return host_.announce(kAskKeys, asker);
}

// All shells get the question at one place in the order of the changes: by then the leader has made all earlier
// ones.
void TorchStore::give_keys(std::string_view asker) {
  if (asker.size() != sizeof(std::uint32_t)) return;
  std::string_view rest = asker;
  if (take_number<std::uint32_t>(rest) == host_.job().shell_rank) has_asked_ = true;
  if (!host_.job().leads()) return;
  auto send = [&](std::string_view keys, bool is_last) {
    std::string out(asker);
    append_number(out, static_cast<std::uint8_t>(is_last));
    append_number(out, keys_since_);
    out += keys;
    if (Result<void> sent = host_.announce(kKeys, out); !sent)
      log(host_, plugin_, Level::warn, "a shell that has joined does not get the store: {}", sent.error().message);
  };
  keys_.write(kBatch, [&](const std::string& piece) { send(piece, false); });
  send("", true);
}

void TorchStore::receive_keys(std::string_view bytes) {
  constexpr std::size_t kHead = sizeof(std::uint32_t) + sizeof(std::uint8_t) + sizeof(std::uint64_t);
  if (bytes.size() < kHead || take_number<std::uint32_t>(bytes) != host_.job().shell_rank) return;
  const bool is_last = take_number<std::uint8_t>(bytes) != 0;
  keys_since_ = std::max(keys_since_, take_number<std::uint64_t>(bytes));
  if (Result<void> read = keys_.read(bytes); !read)
    log(host_, plugin_, Level::warn, "the store of torch.distributed: {}", read.error().message);
  if (!is_last) return;
  restarts_ = std::max(restarts_, keys_since_);  // all tasks had started again before it joined
  is_complete_ = true;
  for (const std::string& each : std::exchange(early_, {})) receive_changes(each);
  serve_all();
}

}  // namespace nacre::plugins
