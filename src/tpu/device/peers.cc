// Messages are a kind, a size and a body in protobuf's wire form.
#include "tpu/device/peers.h"

#include <fmt/ranges.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <deque>
#include <system_error>
#include <thread>
#include <utility>

#include "base/fd.h"
#include "tpu/program/wire.h"

namespace torus::tpu {
namespace {

namespace wire = program::wire;
using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr uint64_t kMaxArray = uint64_t{1} << 31;  // protobuf's bound of a field
constexpr uint64_t kMaxBody = uint64_t{1} << 36;
constexpr milliseconds kRetry{50};

// ---- A connection

enum class Kind : uint32_t { kHello = 1, kWelcome, kRefusal, kPart, kOutcome };

struct Message {
  Kind kind = Kind::kHello;
  std::string body;
};

class Connection {
 public:
  explicit Connection(Fd fd) : fd_(std::move(fd)) {}

  // Whole messages, from any thread. False: the other end is gone.
  bool Send(Kind kind, const std::string& body) {
    const Header header{kind, 0, body.size()};
    const MutexLock lock(sending_);
    return Write(&header, sizeof(header)) && Write(body.data(), body.size());
  }
  // By one thread.
  bool Receive(Message& message) {
    Header header{};
    if (!Read(&header, sizeof(header)) || header.size > kMaxBody) return false;
    message.kind = header.kind;
    message.body.resize(header.size);
    return Read(message.body.data(), message.body.size());
  }
  bool HasInputBy(Clock::time_point until) const {
    const auto left = std::chrono::ceil<milliseconds>(until - Clock::now()).count();
    pollfd entry{fd_.get(), POLLIN, 0};
    return poll(&entry, 1, static_cast<int>(std::max<int64_t>(left, 0))) == 1;
  }
  // Ends both ends' waiting.
  void Close() { shutdown(fd_.get(), SHUT_RDWR); }
  int fd() const { return fd_.get(); }

 private:
  struct Header {
    Kind kind;
    uint32_t unused;
    uint64_t size;
  };

  bool Write(const void* data, size_t size) {
    const char* at = static_cast<const char*>(data);
    while (size > 0) {
      const ssize_t written = send(fd_.get(), at, size, MSG_NOSIGNAL);
      if (written < 0 && errno == EINTR) continue;
      if (written <= 0) return false;
      at += written;
      size -= static_cast<size_t>(written);
    }
    return true;
  }
  bool Read(void* data, size_t size) {
    char* at = static_cast<char*>(data);
    while (size > 0) {
      const ssize_t got = recv(fd_.get(), at, size, 0);
      if (got < 0 && errno == EINTR) continue;
      if (got <= 0) return false;
      at += got;
      size -= static_cast<size_t>(got);
    }
    return true;
  }

  const Fd fd_;
  Mutex sending_;
};

using Link = std::shared_ptr<Connection>;

// ---- Addresses

struct Address {
  sockaddr_un name{};
  socklen_t size = 0;
};

Address AddressOf(const std::string& text) {
  const auto name = fmt::format("torus-slice/{}/{}", geteuid(), text);
  Address address;
  address.name.sun_family = AF_UNIX;
  const size_t length = std::min(name.size(), sizeof(address.name.sun_path) - 1);
  std::copy_n(name.data(), length, address.name.sun_path + 1);  // it begins with a 0: no file
  address.size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + length);
  return address;
}

const sockaddr* Generic(const Address& address) {
  return reinterpret_cast<const sockaddr*>(&address.name);
}

Fd MakeSocket() { return Fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)); }

bool IsOwnUsers(int fd) {
  ucred other{};
  socklen_t size = sizeof(other);
  return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &other, &size) == 0 && other.uid == geteuid();
}

// ---- Messages

struct Hello {
  std::string build;
  int64_t process = 0;
};

std::string Format(const Hello& hello) {
  std::string text;
  protozero::pbf_writer writer(text);
  writer.add_string(1, hello.build);
  writer.add_int64(2, hello.process);
  return text;
}

Hello ReadHello(const std::string& text) {
  return {std::string(wire::FindBytes(text, 1).value_or("")), wire::FindInt(text, 2).value_or(0)};
}

std::string Format(uint64_t id, const Part& part) {
  std::string text;
  protozero::pbf_writer writer(text);
  writer.add_uint64(1, id);
  writer.add_int64(2, part.key.launch);
  writer.add_int64(3, part.key.place);
  writer.add_int64(4, part.key.round);
  writer.add_int64(5, part.member.replica);
  wire::AddInts(writer, 6, part.collective.ToInts());
  for (size_t i = 0; i < part.member.operands.size(); ++i) {
    const auto& operand = part.member.operands[i];
    protozero::pbf_writer message(writer, 7);
    message.add_int64(1, static_cast<int64_t>(operand.type));
    wire::AddInts(message, 2, operand.dimensions);
    message.add_bytes(3, operand.data, operand.Bytes().value_or(0));
  }
  for (const auto result : part.member.results) writer.add_uint64(8, result.size());
  return text;
}

// A part of another process: it holds the memory that its member names.
struct Visitor {
  uint64_t id = 0;
  Part part;
  std::string body;
  std::deque<std::string> results;
};

// Null where the message is wrong.
std::shared_ptr<Visitor> ReadPart(std::string body) {
  auto visitor = std::make_shared<Visitor>();
  visitor->body = std::move(body);
  const std::string& text = visitor->body;
  const auto number = [&](int field) { return wire::FindInt(text, field).value_or(0); };
  visitor->id = static_cast<uint64_t>(number(1));
  Part& part = visitor->part;
  part.key = {number(2), number(3), number(4)};
  part.member.replica = number(5);
  auto collective = program::Collective::FromInts(wire::FindInts(text, 6));
  if (!collective) return nullptr;
  part.collective = *std::move(collective);
  for (const auto operand : wire::FindAllBytes(text, 7)) {
    const auto data = wire::FindBytes(operand, 3).value_or("");
    part.member.operands.push_back(
        {static_cast<program::ElementType>(wire::FindInt(operand, 1).value_or(0)),
         wire::FindInts(operand, 2), data.data()});
    if (part.member.operands.back().Bytes() != data.size()) return nullptr;
  }
  for (const int64_t size : wire::FindInts(text, 8)) {
    auto& result = visitor->results.emplace_back(static_cast<size_t>(size), '\0');
    part.member.results.emplace_back(result);
  }
  return visitor;
}

std::string FormatOutcome(uint64_t id, const Status& status,
                          const std::deque<std::string>& results) {
  std::string text;
  protozero::pbf_writer writer(text);
  writer.add_uint64(1, id);
  writer.add_int64(2, static_cast<int64_t>(status.code()));
  writer.add_string(3, status.message());
  if (!status.ok()) return text;
  for (const auto& result : results) writer.add_bytes(4, result);
  return text;
}

// ---- Process 0

class Host : public MeetingPlace {
 public:
  Host(std::shared_ptr<Meetings> meetings, std::vector<Link> links)
      : meetings_(std::move(meetings)), links_(std::move(links)) {}
  ~Host() override {
    for (const Link& link : links_) link->Close();
  }
  void Join(Part part) override { meetings_->Join(std::move(part)); }

 private:
  const std::shared_ptr<Meetings> meetings_;
  const std::vector<Link> links_;
};

void Invite(Meetings& meetings, const Link& link, std::shared_ptr<Visitor> visitor) {
  Part part = visitor->part;
  part.from_afar = true;
  part.done = [link, visitor = std::move(visitor)](const Status& status) {
    link->Send(Kind::kOutcome, FormatOutcome(visitor->id, status, visitor->results));
  };
  meetings.Join(std::move(part));
}

// Takes what one process sends, until it ends.
void Serve(const std::shared_ptr<Meetings>& meetings, const Link& link, int process,
           const std::vector<int64_t>& devices) {
  Message message;
  try {
    while (link->Receive(message) && message.kind == Kind::kPart) {
      auto visitor = ReadPart(std::move(message.body));
      if (visitor == nullptr) break;
      Invite(*meetings, link, std::move(visitor));
    }
  } catch (const std::exception&) {  // it is none of ours: as if it had ended
  }
  meetings->Lose(devices, Unavailable("Process {} of the slice has ended, so TPU devices [{}] come "
                                      "to no more collectives. Its own output says why it ended.",
                                      process, fmt::join(devices, ", ")));
}

// One that came and says who it is; null where it is none of the slice.
Link Greet(Fd fd, const PeerOptions& options, Clock::time_point until, int& process) {
  if (!fd || !IsOwnUsers(fd.get())) return nullptr;
  auto link = std::make_shared<Connection>(std::move(fd));
  Message message;
  if (!link->HasInputBy(until) || !link->Receive(message) || message.kind != Kind::kHello) {
    return nullptr;
  }
  Hello hello;
  try {
    hello = ReadHello(message.body);
  } catch (const protozero::exception&) {
    return nullptr;
  }
  if (hello.build != options.build) {
    link->Send(Kind::kRefusal,
               fmt::format("'{}' here, '{}' in process 0", hello.build, options.build));
    return nullptr;
  }
  process = static_cast<int>(hello.process);
  return process > 0 && std::cmp_less(process, options.devices.size()) ? link : nullptr;
}

Result<std::vector<Link>> WaitForAll(int listener, const PeerOptions& options) {
  const auto until = Clock::now() + options.patience;
  std::vector<Link> links(options.devices.size());
  size_t missing = links.size() - 1;
  while (missing > 0) {
    const auto left = std::chrono::ceil<milliseconds>(until - Clock::now()).count();
    pollfd entry{listener, POLLIN, 0};
    if (left <= 0 || poll(&entry, 1, static_cast<int>(left)) == 0) {
      std::vector<size_t> absent;
      for (size_t p = 1; p < links.size(); ++p)
        if (links[p] == nullptr) absent.push_back(p);
      return DeadlineExceeded(
          "Of the {} processes of the slice, [{}] did not come to {} within {} s. Start them all, "
          "each with its CLOUD_TPU_TASK_ID; or set TPU_PROCESS_BOUNDS=1,1,1 for one process.",
          links.size(), fmt::join(absent, ", "), options.address, options.patience.count());
    }
    int process = 0;
    Link link =
        Greet(Fd(accept4(listener, nullptr, nullptr, SOCK_CLOEXEC)), options, until, process);
    if (link == nullptr || links[process] != nullptr) continue;
    links[process] = std::move(link);
    --missing;
  }
  return links;
}

Result<std::shared_ptr<MeetingPlace>> BeHost(const PeerOptions& options, int64_t devices) {
  const Fd listener = MakeSocket();
  const Address address = AddressOf(options.address);
  if (!listener || bind(listener.get(), Generic(address), address.size) != 0 ||
      listen(listener.get(), SOMAXCONN) != 0) {
    return AlreadyExists(
        "Process 0 of a slice cannot listen at {}: {}. Another slice of this user runs at that "
        "address; end it, or give TPU_PROCESS_ADDRESSES other ports.",
        options.address, std::generic_category().message(errno));
  }
  TORUS_ASSIGN_OR_RETURN(auto links, WaitForAll(listener.get(), options));
  links.erase(links.begin());  // itself
  const auto meetings = std::make_shared<Meetings>(devices);
  for (size_t i = 0; i < links.size(); ++i) {
    links[i]->Send(Kind::kWelcome, "");
    std::thread(Serve, meetings, links[i], static_cast<int>(i) + 1, options.devices[i + 1])
        .detach();
  }
  return std::make_shared<Host>(meetings, std::move(links));
}

// ---- The others

// Sends parts to process 0, and waits for what becomes of them.
class Guest : public MeetingPlace {
 public:
  explicit Guest(Link link) : desk_(std::make_shared<Desk>()) { desk_->link = std::move(link); }
  ~Guest() override { desk_->link->Close(); }

  void Start() { std::thread(Listen, desk_).detach(); }

  void Join(Part part) override {
    if (!IsSmall(part.member)) {
      return part.done(
          Unimplemented("Between processes, an array of a collective has less than 2 GiB."));
    }
    const auto id = desk_->next.fetch_add(1);
    const std::string body = Format(id, part);
    bool over = false;
    {
      const MutexLock lock(desk_->mutex);
      over = desk_->over;
      if (!over) desk_->waiting.emplace(id, std::move(part));
    }
    if (over) return part.done(HostIsGone());
    desk_->link->Send(Kind::kPart, body);  // that it failed, Listen sees
  }

 private:
  struct Desk {
    Link link;
    std::atomic<uint64_t> next = 1;
    Mutex mutex;
    std::map<uint64_t, Part> waiting TORUS_GUARDED_BY(mutex);
    bool over TORUS_GUARDED_BY(mutex) = false;
  };

  static bool IsSmall(const kernels::Member& member) {
    return std::ranges::all_of(member.results,
                               [](auto result) { return result.size() < kMaxArray; }) &&
           std::ranges::all_of(member.operands, [](const auto& operand) {
             return operand.Bytes().value_or(kMaxArray) < kMaxArray;
           });
  }

  static Status HostIsGone() {
    return Unavailable(
        "Process 0 of the slice has ended, and collectives go through it. Its own output says why "
        "it ended.");
  }

  static void Finish(Desk& desk, const std::string& body) {
    Part part;
    {
      const MutexLock lock(desk.mutex);
      auto found = desk.waiting.extract(static_cast<uint64_t>(wire::FindInt(body, 1).value_or(0)));
      if (found.empty()) return;
      part = std::move(found.mapped());
    }
    const auto code = static_cast<Code>(wire::FindInt(body, 2).value_or(0));
    if (code != Code::kOk) {
      return part.done(Status(code, std::string(wire::FindBytes(body, 3).value_or(""))));
    }
    const auto results = wire::FindAllBytes(body, 4);
    if (!std::ranges::equal(results, part.member.results, {}, &std::string_view::size,
                            &std::span<char>::size)) {
      return part.done(Internal("Process 0 sent results of other sizes."));
    }
    for (size_t i = 0; i < results.size(); ++i) {
      std::ranges::copy(results[i], part.member.results[i].begin());
    }
    part.done(Status());
  }

  static void Listen(const std::shared_ptr<Desk>& desk) {
    Message message;
    try {
      while (desk->link->Receive(message) && message.kind == Kind::kOutcome) {
        Finish(*desk, message.body);
      }
    } catch (const std::exception&) {  // as if it had ended
    }
    std::map<uint64_t, Part> left;
    {
      const MutexLock lock(desk->mutex);
      desk->over = true;
      left.swap(desk->waiting);
    }
    for (auto& [id, part] : left) part.done(HostIsGone());
  }

  const std::shared_ptr<Desk> desk_;
};

// Null while nobody listens there.
Link Dial(const Address& address) {
  Fd fd = MakeSocket();
  if (!fd || connect(fd.get(), Generic(address), address.size) != 0 || !IsOwnUsers(fd.get())) {
    return nullptr;
  }
  return std::make_shared<Connection>(std::move(fd));
}

Result<std::shared_ptr<MeetingPlace>> BeGuest(const PeerOptions& options) {
  const auto until = Clock::now() + options.patience;
  const Address address = AddressOf(options.address);
  Link link = Dial(address);
  while (link == nullptr && Clock::now() < until) {
    std::this_thread::sleep_for(kRetry);
    link = Dial(address);
  }
  Message message;
  const bool answered = link != nullptr &&
                        link->Send(Kind::kHello, Format(Hello{options.build, options.own})) &&
                        link->HasInputBy(until + kRetry) && link->Receive(message);
  if (!answered) {
    return DeadlineExceeded(
        "Process {} of a slice of {} processes waited for process 0 at {}: it did not come within "
        "{} s, or it has ended. Start them all; or set TPU_PROCESS_BOUNDS=1,1,1 for one process.",
        options.own, options.devices.size(), options.address, options.patience.count());
  }
  if (message.kind != Kind::kWelcome) {
    return InvalidArgument("The processes of a slice differ in their libtpu.so or their TPU: {}.",
                           message.body);
  }
  auto guest = std::make_shared<Guest>(std::move(link));
  guest->Start();
  return guest;
}

}  // namespace

Result<std::shared_ptr<MeetingPlace>> JoinPeers(const PeerOptions& options) {
  size_t devices = 0;
  for (const auto& own : options.devices) devices += own.size();
  try {
    return options.own == 0 ? BeHost(options, static_cast<int64_t>(devices)) : BeGuest(options);
  } catch (const std::system_error& error) {
    return ResourceExhausted("No thread for the slice's other processes: {}.", error.what());
  }
}

}  // namespace torus::tpu
