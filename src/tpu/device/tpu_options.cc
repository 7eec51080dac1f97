// The table of options, and the checks by it.
#include "tpu/device/tpu_options.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <numeric>
#include <vector>

namespace torus::tpu {
namespace {

enum class Type {
  kBool,
  kInt,
  kNumber,
  kSwitch,  // on, off or left to the compiler: a bool, or ENABLED, DISABLED, AUTO
  kText,
};

struct Option {
  std::string_view name;
  Type type;
};

// What public code sets, as there is no public list of all: AI-Hypercomputer/maxtext (benchmarks/
// xla_flags_library.py, inference and v5p configurations), apple/axlearn (compiler_options.py),
// google/saxml (its LLM flags), google/jax, pytorch/xla's recipes, vllm's TPU worker. Types by the
// values given there. Sorted.
constexpr Option kOptions[] = {
    {"xla_all_gather_latency_bound_threshold_in_bytes", Type::kInt},
    {"xla_enable_all_gather_3d_emitter", Type::kBool},
    {"xla_enable_async_all_gather", Type::kSwitch},
    {"xla_enable_async_all_reduce", Type::kSwitch},
    {"xla_enable_async_all_to_all", Type::kSwitch},
    {"xla_enable_async_collective_permute", Type::kSwitch},
    {"xla_enable_async_reduce_scatter_fusion", Type::kSwitch},
    {"xla_jf_auto_cross_replica_sharding", Type::kBool},
    {"xla_jf_conv_input_fusion", Type::kBool},
    {"xla_jf_conv_output_fusion", Type::kBool},
    {"xla_jf_conv_reshape_fusion", Type::kBool},
    {"xla_jf_crs_combiner_threshold_count", Type::kInt},
    {"xla_jf_crs_combiner_threshold_in_bytes", Type::kInt},
    {"xla_jf_debug_level", Type::kInt},
    {"xla_jf_rematerialization_percent_shared_memory_limit", Type::kInt},
    {"xla_jf_spmd_threshold_for_windowed_einsum_mib", Type::kInt},
    {"xla_latency_hiding_scheduler_enable_selective_resources", Type::kBool},
    {"xla_latency_hiding_scheduler_rerun", Type::kInt},
    {"xla_lhs_prioritize_async_depth_over_stall", Type::kSwitch},
    {"xla_max_concurrent_host_send_recv", Type::kInt},
    {"xla_msa_enable", Type::kBool},
    {"xla_sc_disable_megacore_partitioning", Type::kBool},
    {"xla_sc_disjoint_spmem", Type::kBool},
    {"xla_sc_enable_instruction_fusion", Type::kBool},
    {"xla_should_add_loop_invariant_op_in_chain", Type::kSwitch},
    {"xla_should_allow_loop_variant_parameter_in_chain", Type::kSwitch},
    {"xla_tpu_accumulate_into_mrb", Type::kBool},
    {"xla_tpu_aggressive_opt_barrier_removal", Type::kSwitch},
    {"xla_tpu_all_gather_collective_matmul_mode", Type::kText},
    {"xla_tpu_allocate_scoped_vmem_at_same_offset", Type::kBool},
    {"xla_tpu_alternate_memory_benefit_scaling_factor_for_large_buffers", Type::kText},
    {"xla_tpu_assign_all_reduce_scatter_layout", Type::kBool},
    {"xla_tpu_async_copy_bandwidth_scaling_factor", Type::kNumber},
    {"xla_tpu_autofdo", Type::kBool},
    {"xla_tpu_autofdo_profile_dir", Type::kText},
    {"xla_tpu_autofdo_profile_file", Type::kText},
    {"xla_tpu_bf16_emission_mode", Type::kText},
    {"xla_tpu_copy_elision_analysis_allowance", Type::kInt},
    {"xla_tpu_copy_fusion_pad_unpad_ratio", Type::kNumber},
    {"xla_tpu_copy_insertion_use_region_analysis_limit", Type::kInt},
    {"xla_tpu_data_parallel_opt_different_sized_ops", Type::kBool},
    {"xla_tpu_dcn_max_overlap_estimation", Type::kNumber},
    {"xla_tpu_decompose_all_gather_einsum", Type::kBool},
    {"xla_tpu_decompose_einsum_reduce_scatter", Type::kBool},
    {"xla_tpu_disable_sparse_core_collective_offload_remover", Type::kBool},
    {"xla_tpu_dot_dot_fusion", Type::kBool},
    {"xla_tpu_dot_dot_fusion_duplicated", Type::kBool},
    {"xla_tpu_dot_dot_fusion_separable_convs_only", Type::kBool},
    {"xla_tpu_dvfs_p_state", Type::kInt},
    {"xla_tpu_enable_ag_backward_pipelining", Type::kBool},
    {"xla_tpu_enable_aggressive_broadcast_priority_update", Type::kBool},
    {"xla_tpu_enable_aggressive_loop_fusion_layout_opt", Type::kBool},
    {"xla_tpu_enable_all_experimental_scheduler_features", Type::kBool},
    {"xla_tpu_enable_all_gather_offload_tracing", Type::kBool},
    {"xla_tpu_enable_all_reduce_offload_tracing", Type::kBool},
    {"xla_tpu_enable_all_reduce_scatter_fusion", Type::kBool},
    {"xla_tpu_enable_async_all_to_all", Type::kBool},
    {"xla_tpu_enable_async_collective_fusion", Type::kBool},
    {"xla_tpu_enable_async_collective_fusion_fuse_all_gather", Type::kSwitch},
    {"xla_tpu_enable_async_collective_fusion_fuse_all_reduce", Type::kSwitch},
    {"xla_tpu_enable_async_collective_fusion_fuse_reduce_scatter", Type::kSwitch},
    {"xla_tpu_enable_async_collective_fusion_multiple_steps", Type::kBool},
    {"xla_tpu_enable_async_collective_fusion_with_mosaic_custom_call", Type::kBool},
    {"xla_tpu_enable_concurrent_sparse_core_offloading", Type::kBool},
    {"xla_tpu_enable_copy_fusion", Type::kBool},
    {"xla_tpu_enable_cross_program_prefetch_freeing", Type::kBool},
    {"xla_tpu_enable_data_parallel_all_reduce_opt", Type::kBool},
    {"xla_tpu_enable_deduplicated_calls", Type::kSwitch},
    {"xla_tpu_enable_dot_strength_reduction", Type::kBool},
    {"xla_tpu_enable_experimental_fusion_cost_model", Type::kBool},
    {"xla_tpu_enable_flash_attention", Type::kBool},
    {"xla_tpu_enable_ici_ag_pipelining", Type::kBool},
    {"xla_tpu_enable_ilp_latency_hiding_scheduler", Type::kBool},
    {"xla_tpu_enable_large_2nd_minor_layout_for_x16", Type::kBool},
    {"xla_tpu_enable_latency_hiding_layer_scheduler", Type::kBool},
    {"xla_tpu_enable_latency_hiding_scheduler", Type::kBool},
    {"xla_tpu_enable_log_recorder", Type::kBool},
    {"xla_tpu_enable_megacore_fusion", Type::kBool},
    {"xla_tpu_enable_megascale_barrier", Type::kBool},
    {"xla_tpu_enable_multi_level_input_dot_dot_fusion", Type::kBool},
    {"xla_tpu_enable_multi_level_nested_loop_fusion", Type::kBool},
    {"xla_tpu_enable_multi_level_output_dot_dot_fusion", Type::kBool},
    {"xla_tpu_enable_net_router_in_all_gather", Type::kBool},
    {"xla_tpu_enable_offloading_gather_to_sparsecore", Type::kBool},
    {"xla_tpu_enable_offloading_scatter_to_sparsecore", Type::kBool},
    {"xla_tpu_enable_scheduler_memory_pressure_tracking", Type::kBool},
    {"xla_tpu_enable_sdc_checker", Type::kBool},
    {"xla_tpu_enable_sparse_core_collective_aggregator", Type::kBool},
    {"xla_tpu_enable_sparse_core_collective_offload_2d_all_gather", Type::kBool},
    {"xla_tpu_enable_sparse_core_collective_offload_3d_all_gather", Type::kBool},
    {"xla_tpu_enable_sparse_core_collective_offload_all_gather", Type::kBool},
    {"xla_tpu_enable_sparse_core_collective_offload_all_reduce", Type::kBool},
    {"xla_tpu_enable_sparse_core_collective_offload_nd_reduce_scatter", Type::kBool},
    {"xla_tpu_enable_sparse_core_collective_offload_reduce_scatter", Type::kBool},
    {"xla_tpu_enable_sparse_core_offload_queuing_in_lhs", Type::kBool},
    {"xla_tpu_enable_sparse_core_reduce_scatter_padding", Type::kBool},
    {"xla_tpu_enable_sparse_core_reduce_scatter_v2", Type::kBool},
    {"xla_tpu_enable_sunk_dcn_allreduce_done_with_host_reduction", Type::kBool},
    {"xla_tpu_enable_tpu_custom_call_scoped_vmem_adjustments", Type::kBool},
    {"xla_tpu_enable_vmem_to_vmem_dmas", Type::kBool},
    {"xla_tpu_enable_windowed_einsum_for_all_gather", Type::kBool},
    {"xla_tpu_enable_windowed_einsum_for_reduce_scatter", Type::kBool},
    {"xla_tpu_enforce_prefetch_fifo_order", Type::kBool},
    {"xla_tpu_force_1d_allreduce_at_chunk_count", Type::kInt},
    {"xla_tpu_host_transfer_overlap_limit", Type::kInt},
    {"xla_tpu_ici_sdc_test_iterations", Type::kInt},
    {"xla_tpu_ici_sdc_test_packet_size_chunks", Type::kInt},
    {"xla_tpu_impure_oom_fast_exit_threshold", Type::kInt},
    {"xla_tpu_input_conv_multi_users", Type::kBool},
    {"xla_tpu_iova_dma_chunk_size_bytes", Type::kInt},
    {"xla_tpu_layout_use_dot_grouping", Type::kBool},
    {"xla_tpu_licm_size_inflation_ratio", Type::kNumber},
    {"xla_tpu_megacore_fusion_allow_ags", Type::kBool},
    {"xla_tpu_memory_bound_loop_optimizer_options", Type::kText},
    {"xla_tpu_mosaic_fusion", Type::kBool},
    {"xla_tpu_msa_inefficient_use_to_copy_ratio", Type::kNumber},
    {"xla_tpu_nd_short_transfer_max_chunks", Type::kInt},
    {"xla_tpu_nested_dot_fusion", Type::kBool},
    {"xla_tpu_order_dot_after_layout", Type::kBool},
    {"xla_tpu_overlap_compute_collective_tc", Type::kBool},
    {"xla_tpu_pack_vloads", Type::kBool},
    {"xla_tpu_pad_operations_input_tiles", Type::kBool},
    {"xla_tpu_perform_spmd_cse_prevention", Type::kBool},
    {"xla_tpu_permute_size4_cross_module_rings", Type::kBool},
    {"xla_tpu_prefer_async_allgather_to_allreduce", Type::kBool},
    {"xla_tpu_prefer_latch_optimized_rhs_layouts", Type::kBool},
    {"xla_tpu_prefetch_interval_picker_size_override", Type::kInt},
    {"xla_tpu_prefuse_self_attention", Type::kBool},
    {"xla_tpu_reduce_loop_fusion_dup_with_unfusable_user", Type::kBool},
    {"xla_tpu_reduce_scatter_collective_matmul_mode", Type::kText},
    {"xla_tpu_relayout_group_size_threshold_for_reduce_scatter", Type::kInt},
    {"xla_tpu_rwb_fusion", Type::kBool},
    {"xla_tpu_scavenge_vmem_for_fusions", Type::kBool},
    {"xla_tpu_scheduler_percent_shared_memory_limit", Type::kInt},
    {"xla_tpu_scoped_vmem_limit_kib", Type::kInt},
    {"xla_tpu_sdc_check_halt_on_detection", Type::kBool},
    {"xla_tpu_sdc_check_repeat_count", Type::kInt},
    {"xla_tpu_sdc_replicate_llo", Type::kBool},
    {"xla_tpu_sliced_prefetch_max_slices", Type::kInt},
    {"xla_tpu_sparse_core_all_gather_latency_multiplier", Type::kInt},
    {"xla_tpu_sparse_core_all_reduce_offload_min_size_in_bytes", Type::kInt},
    {"xla_tpu_sparse_core_reduce_scatter_latency_multiplier", Type::kInt},
    {"xla_tpu_spmd_rewrite_einsum_with_reshape", Type::kBool},
    {"xla_tpu_spmd_rng_bit_generator_unsafe", Type::kBool},
    {"xla_tpu_spmd_threshold_for_allgather_cse", Type::kInt},
    {"xla_tpu_spmd_unroll_windowed_einsum", Type::kBool},
    {"xla_tpu_use_bundle_aware_cost_model_for_fusions", Type::kBool},
    {"xla_tpu_use_enhanced_launch_barrier", Type::kBool},
    {"xla_tpu_use_lp_llo_scheduler_for_dot_dot_fusions", Type::kBool},
    {"xla_tpu_use_megascale_host_reduction", Type::kBool},
    {"xla_tpu_use_minor_sharding_for_major_trivial_input", Type::kBool},
    {"xla_tpu_use_repeated_instance_for_preferred_prefetch_time", Type::kBool},
    {"xla_tpu_use_single_sparse_core_for_all_gather_offload", Type::kBool},
    {"xla_tpu_use_single_sparse_core_for_all_reduce_offload", Type::kBool},
    {"xla_tpu_use_tc_device_shape_on_sc", Type::kBool},
    {"xla_tpu_vector_load_fusion_window", Type::kInt},
    {"xla_tpu_vector_store_fusion_window", Type::kInt},
    {"xla_tpu_vmem_scavenging_mode", Type::kText},
    {"xla_tpu_vmem_use_telamalloc", Type::kBool},
    {"xla_vf_vmem_enable_cross_program_prefetch_freeing", Type::kBool},
    {"xla_vf_vmem_max_outstanding_evictions", Type::kInt},
    {"xla_vf_vmem_max_outstanding_prefetches", Type::kInt},
    {"xla_vf_vmem_max_overlap_to_mem_size_async_copy_ratio", Type::kNumber},
    {"xla_vf_vmem_max_repacks", Type::kInt},
    {"xla_vf_vmem_max_retries", Type::kInt},
    {"xla_vf_vmem_min_overlap_to_async_copy_ratio", Type::kNumber},
    {"xla_vf_vmem_preferred_overlap_to_async_copy_ratio", Type::kNumber},
};

// What only options of the TPU's compiler and runtime begin with.
constexpr std::string_view kPrefixes[] = {"xla_tpu_",   "xla_jf_", "xla_sc_",  "xla_msa_",
                                          "megascale_", "tpu_",    "deepsea_", "jellyfish_"};

// Lets options pass that the table has not: public code cannot name them all.
constexpr char kAnyVariable[] = "TORUS_ANY_TPU_OPTION";

const Option* Find(std::string_view name) {
  const auto* found = std::ranges::find(kOptions, name, &Option::name);
  return found == std::end(kOptions) ? nullptr : found;
}

// How many letters must be changed, added or left out to make one of the other.
size_t Distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), 0);
  for (size_t i = 0; i < a.size(); ++i) {
    size_t diagonal = std::exchange(row[0], i + 1);
    for (size_t j = 0; j < b.size(); ++j) {
      const size_t above = row[j + 1];
      row[j + 1] = std::min({above + 1, row[j] + 1, diagonal + (a[i] != b[j])});
      diagonal = above;
    }
  }
  return row.back();
}

std::string_view Nearest(std::string_view name) {
  return std::ranges::min_element(
             kOptions, {}, [name](const Option& option) { return Distance(name, option.name); })
      ->name;
}

bool IsBool(const OptionValue& value) {
  const auto* text = std::get_if<std::string>(&value);
  if (text == nullptr) return std::holds_alternative<bool>(value);
  constexpr std::string_view kBools[] = {"true", "false", "True", "False", "1", "0"};
  return std::ranges::find(kBools, *text) != std::end(kBools);
}

bool IsInt(const OptionValue& value) {
  const auto* text = std::get_if<std::string>(&value);
  if (text == nullptr) return std::holds_alternative<int64_t>(value);
  int64_t number = 0;
  const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), number);
  return error == std::errc() && end == text->data() + text->size();
}

bool IsNumber(const OptionValue& value) {
  const auto* text = std::get_if<std::string>(&value);
  if (text == nullptr) return IsInt(value) || std::holds_alternative<double>(value);
  double number = 0;
  const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), number);
  return error == std::errc() && end == text->data() + text->size();
}

bool IsSwitch(const OptionValue& value) {
  constexpr std::string_view kStates[] = {"ENABLED", "DISABLED", "AUTO",
                                          "enabled", "disabled", "auto"};
  const auto* text = std::get_if<std::string>(&value);
  return IsBool(value) ||
         (text != nullptr && std::ranges::find(kStates, *text) != std::end(kStates));
}

// Null where the value is of the type; else what the type is.
const char* Mismatch(Type type, const OptionValue& value) {
  switch (type) {
    case Type::kBool:
      return IsBool(value) ? nullptr : "true or false";
    case Type::kInt:
      return IsInt(value) ? nullptr : "an integer";
    case Type::kNumber:
      return IsNumber(value) ? nullptr : "a number";
    case Type::kSwitch:
      return IsSwitch(value) ? nullptr : "true, false, ENABLED, DISABLED or AUTO";
    case Type::kText:
      return std::holds_alternative<std::string>(value) ? nullptr : "a string";
  }
  return nullptr;
}

std::string ToText(const OptionValue& value) {
  return std::visit([](const auto& held) { return fmt::format("{}", held); }, value);
}

}  // namespace

bool IsTpuOption(std::string_view name) {
  return Find(name) != nullptr ||
         std::ranges::any_of(kPrefixes, [name](auto prefix) { return name.starts_with(prefix); });
}

Status CheckTpuOption(std::string_view name, const OptionValue& value) {
  const Option* option = Find(name);
  if (option == nullptr) {
    if (std::getenv(kAnyVariable) != nullptr) return Status();  // NOLINT(concurrency-mt-unsafe)
    return InvalidArgument(
        "No such compile option: '{}'. The nearest that Torus knows is '{}'. If the real compiler "
        "has it, set {}=1 in the environment.",
        name, Nearest(name), kAnyVariable);
  }
  if (const char* type = Mismatch(option->type, value)) {
    return InvalidArgument("The compile option '{}' is {}, not '{}'.", name, type, ToText(value));
  }
  return Status();
}

}  // namespace torus::tpu
