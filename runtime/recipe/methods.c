/* SPDX-License-Identifier: BSD-3-Clause
 * The table of published methods. tests/unit/recipe/test_methods.c parses every entry. */
#include "recipe/methods.h"
#include "base/nearest.h"
#include <string.h>
#include <strings.h>

/* d: parameters; W: workers; k = density * d. Vectors are float32 with d elements (at a shard, with
 * its share of d). */
const struct method methods[] = {
	{ "topk", "Alistarh et al., The Convergence of Sparsified Gradient Methods, NeurIPS 2018",
	  "up=topk(0.01) down=all memory=residual(inside) update=sgd",
	  "up k pairs, down the union, at most W k; worker +1 vector",
	  "a first sparse recipe, for few workers: simple, and easy to tune because the "
	  "shards withhold nothing" },
	{ "bitopk",
	  "Zou, Bidirectional TopK Sparsification for Distributed Learning, Waterloo 2022",
	  "up=topk(0.01) down=topk(0.01) memory=residual(inside) update=sgd",
	  "k pairs up and k down; worker +1 vector, shard +1",
	  "many workers: the bytes of a pull do not grow with their number" },
	{ "threshold",
	  "Sahu et al., Rethinking Gradient Sparsification as Total Error Minimization, NeurIPS "
	  "2021",
	  "up=threshold(0.01) down=all memory=residual(inside) update=sgd",
	  "up as many pairs as pass, at most a quarter of a shard; worker +1 vector",
	  "gradients whose sizes change much during a training: more coordinates are sent "
	  "when they matter" },
	{ "global",
	  "Zou, as bitopk; Diakonikolas et al., Communication-Efficient Distributed Learning of "
	  "Discrete Distributions, NIPS 2017",
	  "up=global(0.01) down=global(0.01) memory=residual(inside) update=sgd",
	  "as bitopk, W k pairs over all workers and k over all shards; a histogram of some 100 "
	  "bytes every 20 steps; worker +1 vector, shard +1",
	  "workers or shards whose gradients differ much in size: one threshold for all "
	  "selects the largest coordinates of the whole job" },
	{ "gaussiank",
	  "Shi et al., Understanding Top-k Sparsification in Distributed Deep Learning, 2019",
	  "up=gaussiank(0.01) down=all memory=residual(outside) update=sgd",
	  "up 2/3 k to 4/3 k pairs; 2 to 16 passes; worker +1 vector",
	  "vectors that are nearly normally distributed, if an exact selection takes too "
	  "long" },
	{ "unbiased",
	  "Wangni et al., Gradient Sparsification for Communication-Efficient Distributed "
	  "Optimization, NeurIPS 2018",
	  "up=random(0.01) down=all memory=none update=sgd",
	  "up k pairs on average; 5 passes; no memory",
	  "no memory for a residual, or an analysis that needs unbiased gradients; the "
	  "variance requires a low learning rate" },
	{ "scalecom",
	  "Chen et al., ScaleCom: Scalable Sparsified Gradient Compression, NeurIPS 2020",
	  "up=cyclic(0.01) down=all memory=residual(outside) update=sgd",
	  "k values up and k down for any W, and the leader's k positions; one exchange more; "
	  "worker +1 vector",
	  "many workers with similar gradients, as with large batches: neither direction "
	  "grows with their number" },
	{ "sketched",
	  "Ivkin et al., Communication-efficient Distributed SGD with Sketching, NeurIPS 2019",
	  "up=sketch(0.01,5,1.6,4) down=all signal=momentum(0.9),mask memory=residual(outside) "
	  "update=sgd",
	  "up 8 k cells and 4 k values, down 4 k positions and k pairs for any W; one exchange "
	  "more; worker +2 vectors",
	  "many workers, if one worker's gradient alone does not show which coordinates "
	  "matter" },
	{ "saddle",
	  "Avdiukhin, Yaroslavtsev, Escaping Saddle Points with Compressed SGD, NeurIPS 2021",
	  "up=topk(0.01) down=all signal=gradient,noise(0.001) memory=residual(inside) reset=1000 "
	  "update=sgd",
	  "as topk, and every 1000th step as dense; slots for a whole shard; worker +1 vector",
	  "non-convex problems that stay near saddle points" },
	{ "ecx",
	  "Tang et al., ErrorCompensatedX: Error Compensation for Variance Reduced Algorithms, "
	  "NeurIPS 2021",
	  "up=all,uniform(4) down=all signal=gradient memory=twostep(1) update=ema(0.1)",
	  "up 4 bits and 1/16 a coordinate, down 32; worker +2 vectors, shard +2",
	  "convex problems with small noise, in few bits" },
	{ "ecx-storm",
	  "Tang et al., ErrorCompensatedX: Error Compensation for Variance Reduced Algorithms, "
	  "NeurIPS 2021",
	  "up=all,uniform(4) down=all signal=storm(0.1) memory=twostep(1) update=ema(0.1)",
	  "as ecx, and two gradients a step; worker +3 vectors, shard +2",
	  "as ecx, if a second gradient in each step costs less than the noise that it "
	  "removes" },
	{ "lag-wk",
	  "Chen et al., LAG: Lazily Aggregated Gradient for Communication-Efficient Distributed "
	  "Learning, NeurIPS 2018",
	  "up=all down=all signal=innovation when=lazy(10,0.1) update=sgd",
	  "up d values where the gradient changed (large batches), down d; worker +1 vector, shard "
	  "+1",
	  "large batches or full gradients, which change slowly: a worker sends only when "
	  "its gradient has changed" },
	{ "lag-ps", "the same; a worker is asked where the model moved (--smoothness)",
	  "up=all down=all signal=innovation when=lazy-server(10,1) update=sgd",
	  "as lag-wk, and no gradient is computed where none is asked for; worker +2 vectors, "
	  "shard +1",
	  "as lag-wk, if computing a gradient costs more than asking for it" },
	{ "laq",
	  "Sun et al., Communication-Efficient Distributed Learning via Lazily Aggregated "
	  "Quantized Gradients, NeurIPS 2019",
	  "up=all,grid(4) down=all signal=innovation when=lazy(10,0.08,100) update=sgd",
	  "up 4 d bits where the gradient changed, down d values; worker +1 vector, shard +1",
	  "as lag-wk, on links that also need few bits in each upload" },
	{ "pqasgd",
	  "Jiang and Agrawal, A Linear Speedup Analysis of Distributed Deep Learning with Sparse "
	  "and Quantized Communication, NeurIPS 2018",
	  "up=all,uniform(4) down=all memory=none when=every(4) update=sgd",
	  "every 4 steps 4 d bits up and d values down; worker +2 vectors",
	  "a link that is too slow for an exchange in every step, with plain SGD" },
	{ "sparse-average", "the same, sparse parameter averaging",
	  "up=block(0.1) down=block(0.1) memory=none update=average",
	  "d/10 values up and down, no positions; no memory",
	  "workers that train nearly alone and drift together slowly" },
	{ "asylpg",
	  "Yu, Wu, Huang, Double Quantization for Communication-Efficient Distributed "
	  "Optimization, NeurIPS 2019",
	  "up=all,uniform(4) down=all,uniform(4) signal=svrg(1000) memory=none when=async(32) "
	  "update=sgd",
	  "4 bits and 1/16 a coordinate each way, 32 at anchors; two gradients a step and full "
	  "ones at anchors; worker +2 vectors, shard +2",
	  "machines of unequal speed, and convex problems that have to be solved exactly" },
	{ "sparse-asylpg", "the same, sparse",
	  "up=random(0.1),uniform(8) down=all,uniform(4) signal=svrg(1000) memory=none "
	  "when=async(32) update=sgd",
	  "as asylpg, but d/10 pairs up on average", "as asylpg, on slower links" },
	{ "acc-asylpg", "the same, accelerated",
	  "up=all,uniform(8) down=all,uniform(8) signal=svrg(1000) memory=none when=async(32) "
	  "update=accelerated",
	  "as asylpg with 8 bits; shard +5 vectors", "as asylpg, for ill-conditioned problems" },
	{ "diloco",
	  "Douillard et al., DiLoCo: Distributed Low-Communication Training of Language Models, "
	  "2023; the program has its own optimizer and pushes its parameters",
	  "up=all down=all signal=drift memory=none when=every(30) update=nesterov(0.9) rate=0.7",
	  "every 30 steps d values up and down; worker +1 vector, shard +1",
	  "a link that allows an exchange only every 30 steps, with an optimizer of the "
	  "program" },
	{ "sparseloco",
	  "Sarfi et al., Communication Efficient LLM Pre-training with SparseLoCo, 2025; "
	  "as diloco, with twomeans in place of its codebook of four values",
	  "up=block-topk(64,4096),twomeans down=all signal=drift memory=residual(decay=0.95) "
	  "when=every(30) update=sgd rate=1 dense=none coding=small",
	  "every 30 steps d/64 positions and 2-bit values up, down the union; worker +2 vectors",
	  "as diloco, with the fewest bytes up, if a training has many hundreds of "
	  "exchanges" },
	{ "sparseloco-down", "the same, with a bounded answer, and a residual that does not decay",
	  "up=block-topk(64,4096),twomeans down=topk(0.05) signal=drift memory=residual "
	  "when=every(30) update=sgd rate=1 dense=none coding=small",
	  "as sparseloco, and d/20 pairs down; worker +2 vectors, shard +1",
	  "as sparseloco, with many workers" },
	{ "local4",
	  "as diloco, but the plain mean in 4 bits each way with error feedback; the values as in "
	  "Douillard et al., Streaming DiLoCo with Overlapping Communication, 2025",
	  "up=all,e3m0 down=all,e3m0 signal=drift memory=residual when=every(10) update=sgd rate=1",
	  "every 10 steps 4 d bits up and down; worker +2 vectors, shard +1",
	  "links with a long delay: local steps with the smallest loss in the "
	  "measurements, in 4 bits each way" },
	{ "streaming-diloco",
	  "Douillard et al., Streaming DiLoCo with Overlapping Communication, 2025; as diloco, in "
	  "parts that hide behind later steps; 4 bits both ways, with error feedback",
	  "up=all,e3m0 down=all,e3m0 signal=drift memory=residual "
	  "when=every(30),fragments(3),late(5),mix(0.5) update=nesterov(0.9) rate=0.4",
	  "every 10 steps 4 d/3 bits up and down; worker +2 vectors, shard +2",
	  "links on which an exchange takes longer than a few steps: it hides behind them" },
	{ "muloco",
	  "Therien et al., MuLoCo: Muon is a Practical Inner Optimizer for DiLoCo, 2025; the "
	  "program's own optimizer is Muon; codes 2 bits by twomeans",
	  "up=all,twomeans down=all signal=drift memory=residual when=every(30) "
	  "update=nesterov(0.9) rate=0.7",
	  "every 30 steps 2 d bits up and d values down; worker +2 vectors, shard +2",
	  "as diloco, if the program's optimizer is Muon" },
	{ "sparta",
	  "Beton et al., Improving the Efficiency of Distributed Training using Sparse Parameter "
	  "Averaging, 2025; the program has its own optimizer and pushes its parameters",
	  "up=randk(0.005) down=all signal=drift memory=residual keep=1 update=sgd rate=1 "
	  "dense=none",
	  "every step d/200 values up, no positions, and d/200 pairs down; worker +2 vectors",
	  "a link without room for gradients, and workers that may differ a little" },
	{ "demo", "Peng, Quesnelle, Kingma, DeMo: Decoupled Momentum Optimization, 2024",
	  "up=block-topk(32,4096) down=all,uniform(1) memory=residual(inside,decay=0.999) "
	  "update=sign reduce=senders transform=dct(64) dense=none",
	  "up 32 pairs of each block of 64 x 64 (half of the vectors), down d bits; worker +1 "
	  "vector, shard +1",
	  "models of matrices on very slow links; the cosine transform needs the shapes "
	  "of the tensors" },
	{ "randk", "Stich, Cordonnier, Jaggi, Sparsified SGD with Memory, NeurIPS 2018",
	  "up=randk(0.01) down=all memory=residual(inside) dense=none update=sgd",
	  "k values up and k pairs down, no positions up; worker +1 vector",
	  "no time to select: positions come from a seed and are never sent" },
	{ "adamw",
	  "Loshchilov, Hutter, Decoupled Weight Decay Regularization, ICLR 2019, in the program",
	  "up=topk(0.06),twomeans down=topk(0.06),twomeans memory=residual update=none clip=1 "
	  "dense=none coding=small",
	  "0.06 d positions and 2-bit values up and down; worker +1 vector, shard +1",
	  "AdamW in the program, the recommended recipe: its betas should be 0.2 and 0.99" },
	{ "sgd", "SGD without momentum, in the program",
	  "up=topk(0.06),twomeans down=topk(0.06),twomeans memory=residual update=none dense=none "
	  "coding=small",
	  "as adamw", "SGD without momentum in the program" },
	{ "sgdm",
	  "Lin et al., Deep Gradient Compression, ICLR 2018, with SGD without momentum in the "
	  "program",
	  "up=topk(0.06),twomeans down=topk(0.06),twomeans signal=momentum(0.9) memory=residual "
	  "update=none dense=none coding=small",
	  "as adamw; worker +2 vectors",
	  "SGD with momentum: the momentum is in the library, and the program's SGD has "
	  "none" },
	{ "muon",
	  "Jordan et al., Muon: An optimizer for hidden layers in neural networks, 2024, in the "
	  "program",
	  "up=topk(0.06),twomeans down=topk(0.06),twomeans memory=residual update=none dense=none "
	  "coding=small",
	  "as adamw", "Muon in the program" },
	{ "shard-adamw",
	  "Loshchilov, Hutter, Decoupled Weight Decay Regularization, ICLR 2019, at the shards",
	  "up=topk(0.04),uniform(4) down=topk(0.04),uniform(4) memory=residual(outside) "
	  "update=adamw(0.2,0.99,1e-8,0.1)",
	  "d/25 pairs up and down, with values of 4 bits; worker +1 vector and no optimizer, shard "
	  "+3",
	  "AdamW without its averages on the workers, which saves their memory" },
};
const size_t n_methods = sizeof(methods) / sizeof(methods[0]);

#define IN_8_BITS   "up=all,uniform(8) down=all,uniform(8)"
#define IN_1_BIT    "up=all,uniform(1) down=all,uniform(1) memory=residual"
#define FROZEN_ADAM "shard-adamw warmup=dense(100) freeze=100"
#define OF_FROZEN_ADAM                                                                             \
	"Adam is at the shards, with 4 % of the coordinates; a GPT with 10^6 parameters learnt "   \
	"better without freeze="
#define MEAN_OF_DRIFTS                                                                             \
	"for sluice.torch.LocalSteps or signal=drift in a program; when=every(H) sets the steps "  \
	"between exchanges"

const struct foreign_name foreign_names[] = {
	{ "dgc", "sgdm", "momentum is in the library, so the program's SGD has none" },
	{ "fp16", "up=all,f16 down=all,f16", "" },
	{ "float16", "up=all,f16 down=all,f16", "" },
	{ "half", "up=all,f16 down=all,f16", "" },
	{ "bf16", "up=all,bf16 down=all,bf16", "" },
	{ "bfloat16", "up=all,bf16 down=all,bf16", "" },
	{ "int8", IN_8_BITS, "" },
	{ "8bit", IN_8_BITS, "" },
	{ "qsgd", IN_8_BITS, "uniform(BITS) takes 1 to 8 bits" },
	{ "1bit", IN_1_BIT, "" },
	{ "signsgd", IN_1_BIT, "the error is kept for later steps" },
	{ "ef-signsgd", IN_1_BIT, "" },
	{ "1bit-adam", FROZEN_ADAM, OF_FROZEN_ADAM },
	{ "onebitadam", FROZEN_ADAM, OF_FROZEN_ADAM },
	{ "powersgd", "adamw",
	  "Sluice does not factorize matrices; sgdm and muon are for these optimizers" },
	{ "adam", "adamw", "" },
	{ "localsgd", "diloco update=sgd rate=1", MEAN_OF_DRIFTS },
	{ "local-sgd", "diloco update=sgd rate=1", MEAN_OF_DRIFTS },
	{ "fedavg", "diloco update=sgd rate=1", MEAN_OF_DRIFTS },
	{ "dense", "up=all down=all", "" },
	{ "none", "up=all down=all", "" },
	{ "allreduce", "up=all down=all", "" },
};
const size_t n_foreign_names = sizeof(foreign_names) / sizeof(foreign_names[0]);

const struct foreign_name *foreign_name_find(const char *name)
{
	for (size_t i = 0; i < n_foreign_names; i++)
		if (!strcasecmp(foreign_names[i].name, name))
			return &foreign_names[i];
	return NULL;
}

const struct method *method_find(const char *name)
{
	for (size_t i = 0; i < n_methods; i++)
		if (!strcmp(methods[i].name, name))
			return &methods[i];
	return NULL;
}

const char *method_nearest(const char *name)
{
	const char *names[sizeof(methods) / sizeof(methods[0])];

	for (size_t i = 0; i < n_methods; i++)
		names[i] = methods[i].name;
	return nearest_word(name, names, n_methods);
}
