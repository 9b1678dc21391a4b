//! One module a page.

macro_rules! pages {
    ($($name:ident $path:literal),* $(,)?) => {$(
        #[doc = include_str!(concat!("../../../docs/", $path))]
        mod $name {}
    )*};
}

pages! {
    readme "../README.md",
    introduction "introduction.md",
    guide "guides/overview.md",
    tensors "guides/tensors.md",
    models "guides/models.md",
    training "guides/training.md",
    devices "guides/devices.md",
    deployment "guides/deployment.md",
    memory "guides/memory.md",
    sparse "guides/sparse.md",
    speed "guides/speed.md",
    profiling "guides/profiling.md",
    debugging "guides/debugging.md",
    testing "guides/testing.md",
    projects "guides/projects.md",
    moving_a_script "moving-a-script.md",
    pytorch_to_torsh "pytorch-to-torsh.md",
    errors "errors.md",
    vision "guides/vision.md",
    text "guides/text.md",
    from_ddp "guides/distributed.md",
    distributed "distributed.md",
    where_weights_come_from "guides/where-weights-come-from.md",
    measured "performance.md",
    architecture_autograd "architecture/autograd.md",
    architecture_core "architecture/core.md",
    architecture_cpu "architecture/cpu.md",
    architecture_decisions "architecture/decisions.md",
    architecture_devices "architecture/devices.md",
    architecture_distributed "architecture/distributed.md",
    architecture_files "architecture/files.md",
    architecture_layers "architecture/layers.md",
    architecture_linalg "architecture/linalg.md",
    architecture_ops "architecture/ops.md",
    architecture_sparse "architecture/sparse.md",
    architecture_tests "architecture/tests.md",
    architecture_text "architecture/text.md",
    architecture_tools "architecture/tools.md",
    architecture_training "architecture/training.md",
    architecture_vision "architecture/vision.md",
}
