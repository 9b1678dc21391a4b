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
}
