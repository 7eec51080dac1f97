// ragged-all-to-all becomes all-to-alls of everything and a gather of the rows that were meant.
//
// Each of a group's N devices sends K runs of rows to each other one. Of its operands (input,
// output, input offsets, send sizes, output offsets, receive sizes), the three lists have N * K
// entries: the runs for the first device of the group, then those for the second, and so on. Rows
// of the output that no run reaches stay.
//
// Here each device gets the whole input of each other one, and the entries that are for itself; row
// r of its output is then the row that the run over r says, if there is one. So the memory is that
// of N inputs: a program that was made to be small may be large here. Receive sizes are what the
// senders say, too, and are not read.
#include <algorithm>
#include <span>

#include "tpu/program/hlo_attributes.h"
#include "tpu/program/maker.h"
#include "tpu/program/rewrite.h"
#include "tpu/program/wire.h"

namespace torus::program {
namespace {

using Dimensions = Maker::Dimensions;

// xla.HloInstructionProto
constexpr protozero::pbf_tag_type kReplicaGroups = 49, kCollectiveDeviceList = 87;

HloShape Numbers(Dimensions dimensions) {
  return ArrayShape(ElementType::kS64, std::move(dimensions));
}

// The devices of one group; 0 where the instruction names no groups: all devices are one.
int64_t GroupSize(const HloInstruction& collective) {
  const auto list = wire::FindBytes(collective.others, kCollectiveDeviceList);
  if (list) {
    constexpr protozero::pbf_tag_type kIota = 2, kDevicesPerGroup = 2;
    const auto iota = wire::FindBytes(*list, kIota);
    if (iota) return wire::FindInt(*iota, kDevicesPerGroup).value_or(0);
  }
  const auto groups =
      list ? wire::FindAllBytes(*list, 1) : wire::FindAllBytes(collective.others, kReplicaGroups);
  return groups.empty() ? 0 : static_cast<int64_t>(wire::FindInts(groups.front(), 1).size());
}

// A collective that the module has not got yet.
int64_t NewChannel(const HloModule& module) {
  int64_t channel = 0;
  for (const auto& computation : module.computations) {
    for (const auto& instruction : computation.instructions) {
      channel = std::max(channel, instruction.channel_id);
    }
  }
  return channel + 1;
}

class Exchange {
 public:
  Exchange(Maker& make, const HloModule& module, const HloComputation& computation,
           const HloInstruction& exchange)
      : make_(make), exchange_(exchange), channel_(NewChannel(module)) {
    for (const auto field : {kReplicaGroups, kCollectiveDeviceList}) {
      for (const auto groups : wire::FindAllBytes(exchange.others, field)) {
        protozero::pbf_writer(groups_).add_message(field, groups.data(), groups.size());
      }
    }
    for (const int64_t operand : exchange.operands) operands_.push_back(computation.Find(operand));
  }

  Status Check() {
    if (operands_.size() != 6 || exchange_.shape.dimensions.empty() ||
        operands_[0]->shape.dimensions.size() != exchange_.shape.dimensions.size() ||
        !std::ranges::equal(rest(), std::span(exchange_.shape.dimensions).subspan(1))) {
      return InvalidArgument("The ragged-all-to-all '{}' has an input and an output that differ.",
                             exchange_.name);
    }
    for (size_t i = 2; i < 5; ++i) {
      const auto& dimensions = operands_[i]->shape.dimensions;
      if (dimensions.size() != 1 || dimensions[0] != entries()) return BadLists();
    }
    devices_ = GroupSize(exchange_);
    if (devices_ == 0) devices_ = entries();
    return devices_ > 0 && entries() % devices_ == 0 ? Status() : BadLists();
  }

  // The output with what was received: predicate, then and else of a select.
  Dimensions Make() {
    const int64_t inputs = AllInputs();
    const int64_t row = RowOf();  // of all inputs, from 1 on; 0: none
    const auto rows = Numbers({exchange_.shape.dimensions[0]});
    const int64_t one = make_.Fill(ElementType::kS64, rows.dimensions, 1);
    const int64_t is_met = make_.Compare("GE", rows, row, one);
    const int64_t index = make_.Make("subtract", rows, {row, one});
    const int64_t met = make_.Make(
        "broadcast", ArrayShape(ElementType::kPred, exchange_.shape.dimensions), {is_met}, {0});
    return {met, Gather(inputs, index), operands_[1]->id};
  }

  bool moves_nothing() const {
    return exchange_.shape.elements() == 0 || operands_[0]->shape.elements() == 0;
  }
  int64_t output() const { return operands_[1]->id; }

 private:
  Status BadLists() const {
    return InvalidArgument(
        "The ragged-all-to-all '{}' must have lists of as many offsets and sizes, a multiple of "
        "the devices in its groups; it has {}, {} and {} for {} devices.",
        exchange_.name, operands_[2]->shape.ToString(), operands_[3]->shape.ToString(),
        operands_[4]->shape.ToString(), devices_);
  }

  int64_t entries() const { return operands_[2]->shape.dimensions[0]; }
  int64_t input_rows() const { return operands_[0]->shape.dimensions[0]; }
  std::span<const int64_t> rest() const {
    return std::span(operands_[0]->shape.dimensions).subspan(1);
  }

  // Part i of the first dimension goes to device i, what came from device i becomes part i.
  int64_t AllToAll(HloShape shape, int64_t operand) {
    const int64_t id = make_.Make("all-to-all", std::move(shape), {operand}, {0});
    if (exchange_.channel_id > 0) make_.last().channel_id = channel_++;
    make_.last().others += groups_;
    return id;
  }

  // The inputs of all devices, one after the other.
  int64_t AllInputs() {
    const auto& input = *operands_[0];
    auto dimensions = input.shape.dimensions;
    dimensions.insert(dimensions.begin(), devices_);
    const auto each = ArrayShape(input.shape.element_type, dimensions);
    const int64_t copies =
        make_.Make("broadcast", each, {input.id}, Iota(input.shape.dimensions.size(), 1));
    const int64_t received = AllToAll(each, copies);
    dimensions.erase(dimensions.begin());
    dimensions[0] *= devices_;
    return make_.Make("reshape", ArrayShape(input.shape.element_type, dimensions), {received});
  }

  // The entries for this device: those of the group's first device, then of the second, ...
  int64_t Received(const HloInstruction& list) {
    const int64_t numbers = make_.Make("convert", Numbers({entries()}), {list.id});
    const int64_t parts =
        make_.Make("reshape", Numbers({devices_, entries() / devices_}), {numbers});
    const int64_t received = AllToAll(Numbers({devices_, entries() / devices_}), parts);
    return make_.Make("reshape", Numbers({entries()}), {received});
  }

  // For each entry, the first row of its sender in all inputs.
  int64_t SenderRows() {
    const auto parts = Numbers({devices_, entries() / devices_});
    const int64_t sender = make_.Make("iota", parts, {}, {0});
    const int64_t rows = make_.Fill(ElementType::kS64, parts.dimensions, input_rows());
    const int64_t first = make_.Make("multiply", parts, {sender, rows});
    return make_.Make("reshape", Numbers({entries()}), {first});
  }

  // For each row of the output, the row of all inputs that it is, plus one; 0: it stays.
  int64_t RowOf() {
    const auto list = Numbers({entries()});
    const auto pairs = Numbers({entries(), exchange_.shape.dimensions[0]});
    const int64_t from = Received(*operands_[2]);
    const int64_t size = Received(*operands_[3]);
    const int64_t to = Received(*operands_[4]);
    const int64_t end = make_.Make("add", list, {to, size});
    // What is added to an output's row to have the input's.
    const int64_t first = make_.Make("add", list, {from, SenderRows()});
    const int64_t shift = make_.Make("subtract", list, {first, to});
    const auto spread = [&](int64_t of) { return make_.Make("broadcast", pairs, {of}, {0}); };
    const int64_t row = make_.Make("iota", pairs, {}, {1});
    const int64_t met = make_.Make("and", ArrayShape(ElementType::kPred, pairs.dimensions),
                                   {make_.Compare("GE", pairs, row, spread(to)),
                                    make_.Compare("LT", pairs, row, spread(end))});
    const int64_t one = make_.Fill(ElementType::kS64, pairs.dimensions, 1);
    const int64_t zero = make_.Fill(ElementType::kS64, pairs.dimensions, 0);
    const int64_t source = make_.Make("add", pairs, {row, spread(shift)});
    const int64_t counted = make_.Make("add", pairs, {source, one});
    const int64_t chosen = make_.Make("select", pairs, {met, counted, zero});
    // At most one run is over a row: the sum over runs is its.
    const int64_t ones = make_.Fill(ElementType::kS64, {entries()}, 1);
    return make_.Dot(Numbers({exchange_.shape.dimensions[0]}), ones, chosen,
                     {.lhs_contracting = {0}, .rhs_contracting = {0}});
  }

  // Rows of `inputs`; an index outside of it is moved inside.
  int64_t Gather(int64_t inputs, int64_t index) {
    Dimensions slice{1};
    slice.insert(slice.end(), rest().begin(), rest().end());
    return make_.Gather(inputs, index, exchange_.shape, 0, slice);
  }

  Maker& make_;
  const HloInstruction& exchange_;
  std::vector<const HloInstruction*> operands_;
  std::string groups_;  // the fields that name them
  int64_t channel_;     // the next new one
  int64_t devices_ = 0;
};

Status Rewrite(Maker& make, const HloModule& module, const HloComputation& computation,
               HloInstruction& exchange) {
  Exchange parts(make, module, computation, exchange);
  TORUS_RETURN_IF_ERROR(parts.Check());
  if (parts.moves_nothing()) {
    exchange.opcode = "copy";
    exchange.operands = {parts.output()};
  } else {
    const auto operands = parts.Make();
    exchange.opcode = "select";
    exchange.operands = operands;
  }
  exchange.channel_id = 0;
  for (const auto field : {kReplicaGroups, kCollectiveDeviceList}) {
    exchange.others = wire::Without(exchange.others, field);
  }
  return Status();
}

}  // namespace

Result<bool> RewriteRaggedAllToAll(HloModule& module) {
  bool changed = false;
  for (auto& computation : module.computations) {
    for (size_t i = 0; i < computation.instructions.size(); ++i) {
      if (computation.instructions[i].opcode != "ragged-all-to-all") continue;
      Maker make(module, computation, computation.instructions[i], "ragged");
      TORUS_RETURN_IF_ERROR(Rewrite(make, module, computation, computation.instructions[i]));
      i += make.PutBefore(computation, i);
      changed = true;
    }
  }
  return changed;
}

}  // namespace torus::program
