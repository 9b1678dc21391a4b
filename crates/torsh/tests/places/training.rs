//! Layers, losses, optimizers, schedulers, data, files, debugging and calls by name.

use torsh::checkpoint::Checkpoint;
use torsh::data::{ConcatDataset, Dataset, ImageFolder, StackDataset, WeightedRandomSampler};
use torsh::nn::{Module, ModuleExt, init, utils};
use torsh::optim::lr_scheduler as lr;
use torsh::prelude::*;
use torsh::serialize::{Value, npy, npz, pt, safetensors};
use torsh::{autograd, debug, ops, optim, profiler};

use super::fails;

/// One wrong call of each function, on a line of its own.
#[rustfmt::skip]
pub fn calls(x: &Tensor) {
    let (long, image) = (tensor![1, 2, 3], zeros(&[1, 3, 8, 8]));
    let f32 = DType::F32;

    // Constructors of layers.
    fails(Conv1d::new(3, 8, 0, 1, 1));
    fails(Conv2d::new(3, 8, 3, 0, 1));
    fails(Conv3d::new(3, 8, 3, 1, -1));
    fails(Conv2d::builder(3, 8, 3).groups(2).build());
    fails(Conv2d::builder(3, 8, 3).padding_mode("mirror").build());
    fails(Conv2d::builder(3, 8, 3).padding("all").build());
    fails(ConvTranspose2d::builder(3, 8, 3).groups(2).build());
    fails(LayerNorm::new([-1]));
    fails(GroupNorm::new(3, 4));
    fails(BatchNorm2d::builder(4).dtype(DType::I64).build());
    fails(Embedding::builder(4, 2).padding_idx(9).build());
    fails(EmbeddingBag::builder(4, 2).padding_idx(9).build());
    fails(Dropout::new(1.5));
    fails(AlphaDropout::new(-0.5));
    fails(LSTM::builder(2, 3).num_layers(0).build());
    fails(RNN::builder(2, 3).nonlinearity("sigmoid").build());
    fails(GRU::builder(2, 3).dropout(2.0).build());
    fails(MultiheadAttention::new(5, 2));
    fails(TransformerEncoderLayer::new(5, 2));
    fails(MaxPool2d::new(0));
    fails(PixelShuffle::new(-1));

    // What layers make of wrong inputs, called by themselves, boxed and in others.
    let linear = Linear::new(3, 2);
    fails(linear.forward(&zeros(&[2, 4])));
    fails(linear.forward(&long));
    let boxed: Box<dyn Module> = Box::new(Linear::new(3, 2));
    fails(boxed.forward(&zeros(&[2, 4])));
    let shared: std::sync::Arc<dyn Module> = std::sync::Arc::new(Linear::new(3, 2));
    fails(shared.forward(&zeros(&[2, 4])));
    let mut both = Sequential::new();
    both.push(Linear::new(3, 2));
    both.push(Linear::new(3, 2));
    fails(both.forward(x));
    for layer in [Box::new(ReLU::new()) as Box<dyn Module>, Box::new(Linear::new(7, 2))].iter().skip(1) {
        fails(layer.forward(x));
    }
    fails(Conv2d::new(4, 8, 3, 1, 1).and_then(|c| c.forward(&image)));
    let conv = Conv2d::new(4, 8, 3, 1, 1).expect("a layer");
    fails(conv.forward(&image));
    let norm = LayerNorm::new([4]).expect("a layer");
    fails(norm.forward(&zeros(&[4, 5])));
    let norm = BatchNorm1d::new(4).expect("a layer");
    fails(norm.forward(&zeros(&[4, 5])));
    let norm = GroupNorm::new(2, 4).expect("a layer");
    fails(norm.forward(&zeros(&[4, 5])));
    let table = Embedding::new(4, 2).expect("a layer");
    fails(table.forward(&tensor![4]));
    let bag = EmbeddingBag::new(4, 2).expect("a layer");
    fails(bag.forward(&tensor![4]));
    let rnn = LSTM::new(2, 3).expect("a layer");
    fails(rnn.forward(x));
    fails(rnn.forward_with(x, None));
    let cell = GRUCell::new(2, 3).expect("a layer");
    fails(cell.forward_with(x, None));
    let attention = MultiheadAttention::new(4, 2).expect("a layer");
    fails(attention.forward(x, x, x));
    fails(Module::forward(&attention, x));
    let pool = MaxPool2d::new(3).expect("a layer");
    fails(pool.forward(x));
    fails(Bilinear::new(2, 3, 4).and_then(|b| b.forward(x, x)));
    fails(CosineSimilarity::new().forward(x, &zeros(&[4, 5])));
    fails(GELU::approximate("exact").forward(x));

    // Losses.
    let y = zeros(&[4, 5]);
    fails(MSELoss::new().forward(x, &y));
    fails(L1Loss::new().forward(x, &y));
    fails(CrossEntropyLoss::new().forward(x, &y));
    fails(NLLLoss::new().forward(x, &y));
    fails(BCELoss::new().forward(x, &y));
    fails(BCEWithLogitsLoss::new().forward(x, &y));
    fails(KLDivLoss::new().forward(x, &y));
    fails(HuberLoss::new().forward(x, &y));
    fails(SmoothL1Loss::new().forward_with(x, &y));
    fails(CTCLoss::new().forward(x, &y, [1], [1]));
    fails(GaussianNLLLoss::new().forward(x, &y, 1.0));
    fails(TripletMarginLoss::new().forward(x, &y, &zeros(&[7])));
    fails(CosineEmbeddingLoss::new().forward(x, &y, &long));
    fails(Module::forward(&MSELoss::new(), x));
    fails(MSELoss::with(F::LossOptions::new().reduction("man")).forward(x, x));

    // Modules.
    fails(linear.load_state_dict(&conv.state_dict()));
    fails(linear.get_submodule("nothing").map(drop));
    fails(linear.get_parameter("nothing"));
    fails(linear.save("/nowhere/x.safetensors"));
    fails(linear.load("/nowhere/x.safetensors"));
    fails(Linear::new(3, 2).to_dtype(DType::I64));
    fails(init::xavier_uniform_(&zeros(&[3]), 1.0));
    fails(init::kaiming_uniform_(&zeros(&[3])));
    fails(init::kaiming_normal_with(x, init::KaimingOptions::default().mode("fan")));
    fails(init::orthogonal_(&zeros(&[3]), 1.0));
    fails(init::normal_(&long, 0.0, 1.0));
    fails(init::calculate_fan_in_and_fan_out(&zeros(&[3])));
    fails(utils::rnn::pad_sequence(&[]));
    fails(utils::rnn::pack_sequence(&[]));
    fails(utils::vector_to_parameters(&zeros(&[3]), linear.parameters()));
    fails(utils::prune::l1_unstructured(Linear::new(3, 2), "weight", 7));
    fails(utils::prune::l1_unstructured(&linear as &dyn Module, "weight", 1));
    fails(utils::prune::global_unstructured(&[], utils::prune::PruningMethod::L1Unstructured, 1));
    fails(utils::prune::PruningMethod::L1Unstructured(7.into()).prune(&zeros(&[3])));

    // Optimizers and schedulers.
    let parameters = || linear.parameters();
    fails(SGD::new(parameters(), -1.0));
    fails(Adam::new(parameters(), -1.0));
    fails(AdamW::builder(parameters()).betas(1.5, 0.9).build());
    fails(RMSprop::new(parameters(), -1.0));
    fails(Adagrad::new(parameters(), -1.0));
    fails(LBFGS::new(parameters(), -1.0));
    fails(SGD::new(Vec::<torsh::nn::Parameter>::new(), 0.1));
    let sgd = SGD::new(parameters(), 0.1).expect("an optimizer");
    fails(sgd.set_group_lr(3, 0.1));
    fails(sgd.load_state_dict(&Default::default()));
    fails(optim::get_ema_avg_fn(2.0).map(drop));
    fails(StepLR::new(&sgd, 0, 0.1));
    fails(lr::ConstantLR::new(&sgd, 2.0, 5));
    fails(lr::LinearLR::new(&sgd, 0.0, 1.0, 5));
    fails(lr::CosineAnnealingWarmRestarts::new(&sgd, 0, 1, 0.0));
    fails(lr::ReduceLROnPlateau::new_with(&sgd, lr::ReduceLROnPlateauOptions::new().mode("up")));
    fails(lr::CyclicLR::new_with(&sgd, 0.1, 0.2, lr::CyclicLROptions::new().mode("square")));
    fails(lr::OneCycleLR::new(&sgd, 0.1, 0));
    fails(lr::ChainedScheduler::new(Vec::new()));

    // Data.
    let pairs = TensorDataset::new(zeros(&[4, 2]), zeros(&[4]));
    fails(pairs.get(9));
    fails(DataLoader::builder(pairs.clone()).batch_size(0).build());
    fails(random_split(pairs.clone(), &[9, 9]));
    fails(ConcatDataset::<TensorDataset>::new(Vec::new()));
    fails(StackDataset::new((pairs.clone(), TensorDataset::new(zeros(&[3, 2]), zeros(&[3])))));
    fails(ImageFolder::new("/nowhere"));
    fails(WeightedRandomSampler::new([-1.0], 2));
    fails(data::read_image("/nowhere/x.png"));
    fails(data::decode_image(b"no image"));

    // Files.
    fails(torsh::load("/nowhere/x.pt"));
    fails(torsh::save(&Value::from(1), "/nowhere/x.pt"));
    fails(npy::load("/nowhere/x.npy"));
    fails(npy::load_bytes(b"no"));
    fails(npy::save(x, "/nowhere/x.npy"));
    fails(npz::load("/nowhere/x.npz"));
    fails(npz::load_bytes(b"no"));
    fails(pt::load("/nowhere/x.pt"));
    fails(pt::load_bytes(b"no"));
    fails(safetensors::load("/nowhere/x.safetensors"));
    fails(safetensors::load_bytes(b"no"));
    fails(torsh::serialize::load_bytes(b"no"));
    fails(torsh::serialize::write_bytes("/nowhere/x", b"no"));

    // Autograd.
    fails(x.backward());
    fails(x.sum().and_then(|s| s.backward()));
    fails(x.register_hook(|_| Ok(None)));
    fails(x.retain_grad());
    fails(autograd::grad(std::slice::from_ref(x), std::slice::from_ref(x), &[], false, false, false));
    fails(autograd::vjp(|x| Ok(x[0].clone()), std::slice::from_ref(&long), x));
    fails(autograd::jacobian(|x| Ok(x[0].clone()), std::slice::from_ref(&long), false));
    fails(no_grad(|| x.view(&[7])));

    // Devices, dtypes and calls by name.
    fails(x.to_device(Device::Cuda(7)));
    fails(x.to_dtype(f32).and_then(|x| x.item::<f32>()));
    fails(torsh::set_default_dtype(DType::I64));
    fails(ops::call("nothing", &[], &[]));
    fails(ops::call("matmul", &[x.into(), x.into()], &[]));
    fails(<Device as std::str::FromStr>::from_str("cuba"));
    fails(<DType as std::str::FromStr>::from_str("float31"));

    // Debugging and profiling.
    fails(debug::validate_input_tensor(x, [7, 7]));
    fails(debug::compute_file_hash("/nowhere"));
    fails(debug::verify_model_checksum("/nowhere"));
    fails(debug::safe_load_model(&linear, "/nowhere"));
    fails(profiler::schedule(0, 0, 0, 0));
    fails(train::registry::create_model(&train::config::ModelConfig::new("no such model")).map(drop));
    fails(Checkpoint::load("/nowhere"));
}
