//! Tests that are not run on the mock device.

/// A test's name, and why it has no place here.
pub const LEFT_OUT: &[(&str, &str)] = &[
    ("autograd_checkpoint::memory_is_not_kept", MEMORY),
    ("autograd_sequential::memory_and_random_numbers", MEMORY),
    (
        "autograd_graph::deep_graphs_on_a_small_stack",
        "it starts its own process, whose default device is the CPU",
    ),
    (
        "tensor_operators::literals_have_the_dtypes_of_python_lists",
        "it reads the CPU's name",
    ),
    (
        "tensor_autocast::other_threads_and_meta_tensors_are_not_cast",
        "another thread has the device's own dtype of autocast regions, which is not the CPU's",
    ),
    (
        "tensor_half_types::a_loss_rounds_the_logarithm_before_its_product",
        ROUNDS,
    ),
    ("tensor_half_types::attention_of_few_queries", ROUNDS),
    (
        "tensor_half_types::batch_norm_rounds_the_variance_in_bfloat16_alone",
        ROUNDS,
    ),
    (
        "nn_init::draws_are_pytorchs",
        "sparse_ orders rows on the CPU, whose generator is not the device's",
    ),
];

const ROUNDS: &str = "the device computes the op by its definition, which rounds once, at its end";
const MEMORY: &str = "it measures the memory of the CPU's allocator";
