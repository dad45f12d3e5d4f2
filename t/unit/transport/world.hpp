// SPDX-License-Identifier: Apache-2.0
//
// Two shells of a job in one process: a listener, a dialler, and what each end of the link between them is told.
#pragma once

#include "event/loop.hpp"
#include "folder.hpp"
#include "transport/dialer.hpp"
#include "transport/link.hpp"

namespace nacre::transport {

inline constexpr const char* kJob = "ƒ2abc";
// Equal credentials for all worlds with the same letter.
std::unique_ptr<Credentials> credentials_of(char letter = 'a', const std::string& job = kJob);

enum class Over { tcp, local };

// What one end is told. Callbacks that are set here are called after it is recorded.
struct End {
  OwnedLink link;
  std::vector<std::string> frames;
  std::size_t frame_count = 0;
  std::map<StreamId, std::string> bulk;
  std::map<StreamId, std::size_t> bulk_bytes;
  std::vector<StreamId> ended;
  std::vector<StreamId> credited;
  int finished = 0;
  int closed = 0;
  int after_closed = 0;  // callbacks that should not have come
  std::optional<Error> why;
  bool keeps = true;            // keep frames and bulk; otherwise they are only counted
  bool finishes_itself = true;  // finishes when the other end has finished
  std::size_t regrants = 0;     // 1: gives credit anew for what comes
  std::function<void(std::string_view)> on_frame;
  std::function<void(StreamId, std::string_view)> on_bulk;
  std::function<void(StreamId, std::size_t)> on_credit;
  std::function<void()> on_room;

  void serve();
};

struct World {
  explicit World(Over over = Over::tcp, Listener::Options options = {}, Dialer::Options dial_options = {});

  // One link; both ends are served.
  void connect();
  void connect_unserved();
  // The outcome of another dialler, with credentials of its own or those of the world.
  Result<OwnedLink> dial(Credentials* other = nullptr);
  Result<OwnedLink> dial(std::vector<Address> addresses, Credentials* other = nullptr);
  [[nodiscard]] Address address() const;
  [[nodiscard]] UniqueFd raw_client() const;  // a connected socket that has said nothing, non-blocking
  void run_until(const std::function<bool()>& done) const { loop->run_until(done); }

  kit::TemporaryFolder folder;
  Over over;
  Listener::Options options;
  Dialer::Options dial_options;
  std::unique_ptr<event::Loop> loop = event::Loop::create().value();
  std::unique_ptr<Credentials> credentials = credentials_of();
  std::unique_ptr<Listener> listener;
  std::vector<OwnedLink> arrived;
  std::vector<std::string> refused;
  End a;  // dialled
  End b;  // accepted
};

inline bool contains(std::string_view text, std::string_view part) { return text.find(part) != text.npos; }

std::size_t open_descriptors();
std::size_t resident_bytes();

}  // namespace nacre::transport
