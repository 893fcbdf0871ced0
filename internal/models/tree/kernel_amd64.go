package tree

import "golang.org/x/sys/cpu"

func vectorKernels() []kernel {
	var list []kernel
	if cpu.X86.HasAVX512F && cpu.X86.HasAVX512BW {
		k := kernel{name: "avx512", round: roundAVX512, walk: walkEight, walk64: walkEightDouble}
		k.ask[0], k.ask[1] = askRightAVX512, askLeftAVX512
		k.trees[0], k.trees[1], k.trees[2], k.trees[3] = trees2AVX512, trees4AVX512, trees6AVX512, trees8AVX512
		k.levels[0], k.levels[1], k.levels[2], k.levels[3] = levels2AVX512, levels4AVX512, levels6AVX512, levels8AVX512
		k.trees64[0], k.trees64[1], k.trees64[2], k.trees64[3] = trees2AVX512Double, trees4AVX512Double, trees6AVX512Double, trees8AVX512Double
		k.levels64[0], k.levels64[1], k.levels64[2], k.levels64[3] = levels2AVX512Double, levels4AVX512Double, levels6AVX512Double, levels8AVX512Double
		list = append(list, k)
	}
	if cpu.X86.HasAVX2 {
		k := kernel{name: "avx2", round: roundAVX2, walk: walkEight, walk64: walkEightDouble}
		k.ask[0], k.ask[1] = askRightAVX2, askLeftAVX2
		k.trees[0], k.trees[1], k.trees[2], k.trees[3] = trees2AVX2, trees4AVX2, trees6AVX2, trees8AVX2
		k.levels[0], k.levels[1], k.levels[2], k.levels[3] = levels2AVX2, levels4AVX2, levels6AVX2, levels8AVX2
		k.trees64[0], k.trees64[1], k.trees64[2], k.trees64[3] = trees2AVX2Double, trees4AVX2Double, trees6AVX2Double, trees8AVX2Double
		k.levels64[0], k.levels64[1], k.levels64[2], k.levels64[3] = levels2AVX2Double, levels4AVX2Double, levels6AVX2Double, levels8AVX2Double
		list = append(list, k)
	}
	return list
}

//go:noescape
func roundAVX512(from *float64, to *float32, eights int)

//go:noescape
func roundAVX2(from *float64, to *float32, eights int)

//go:noescape
func walkEight(nodes *node, leaves *float32, slots *uint32, trees *span, sum float32, groups int) float32

//go:noescape
func askRightAVX512(values *[blockRows]float32, thresholds *float32, answers *uint64, count int)

//go:noescape
func askLeftAVX512(values *[blockRows]float32, thresholds *float32, answers *uint64, count int)

//go:noescape
func askRightAVX2(values *[blockRows]float32, thresholds *float32, answers *uint64, count int)

//go:noescape
func askLeftAVX2(values *[blockRows]float32, thresholds *float32, answers *uint64, count int)

//go:noescape
func trees2AVX512(answers *uint64, questions *uint32, leaves *float32, sums *[blockRows]float32, count int)

//go:noescape
func trees4AVX512(answers *uint64, questions *uint32, leaves *float32, sums *[blockRows]float32, count int)

//go:noescape
func trees6AVX512(answers *uint64, questions *uint32, leaves *float32, sums *[blockRows]float32, count int)

//go:noescape
func trees8AVX512(answers *uint64, questions *uint32, leaves *float32, sums *[blockRows]float32, count int)

//go:noescape
func trees2AVX2(answers *uint64, questions *uint32, leaves *float32, sums *[blockRows]float32, count int)

//go:noescape
func trees4AVX2(answers *uint64, questions *uint32, leaves *float32, sums *[blockRows]float32, count int)

//go:noescape
func trees6AVX2(answers *uint64, questions *uint32, leaves *float32, sums *[blockRows]float32, count int)

//go:noescape
func trees8AVX2(answers *uint64, questions *uint32, leaves *float32, sums *[blockRows]float32, count int)

//go:noescape
func walkEightDouble(nodes *node, leaves *float64, slots *uint32, trees *span, sum float64, groups int) float64

//go:noescape
func trees2AVX512Double(answers *uint64, questions *uint32, leaves *float64, sums *[blockRows]float64, count int)

//go:noescape
func trees4AVX512Double(answers *uint64, questions *uint32, leaves *float64, sums *[blockRows]float64, count int)

//go:noescape
func trees6AVX512Double(answers *uint64, questions *uint32, leaves *float64, sums *[blockRows]float64, count int)

//go:noescape
func trees8AVX512Double(answers *uint64, questions *uint32, leaves *float64, sums *[blockRows]float64, count int)

//go:noescape
func trees2AVX2Double(answers *uint64, questions *uint32, leaves *float64, sums *[blockRows]float64, count int)

//go:noescape
func trees4AVX2Double(answers *uint64, questions *uint32, leaves *float64, sums *[blockRows]float64, count int)

//go:noescape
func trees6AVX2Double(answers *uint64, questions *uint32, leaves *float64, sums *[blockRows]float64, count int)

//go:noescape
func trees8AVX2Double(answers *uint64, questions *uint32, leaves *float64, sums *[blockRows]float64, count int)

//go:noescape
func levels2AVX512(answers *uint64, questions *uint32, leaves *float32, sums *[blockRows]float32, count int)

//go:noescape
func levels4AVX512(answers *uint64, questions *uint32, leaves *float32, sums *[blockRows]float32, count int)

//go:noescape
func levels6AVX512(answers *uint64, questions *uint32, leaves *float32, sums *[blockRows]float32, count int)

//go:noescape
func levels8AVX512(answers *uint64, questions *uint32, leaves *float32, sums *[blockRows]float32, count int)

//go:noescape
func levels2AVX2(answers *uint64, questions *uint32, leaves *float32, sums *[blockRows]float32, count int)

//go:noescape
func levels4AVX2(answers *uint64, questions *uint32, leaves *float32, sums *[blockRows]float32, count int)

//go:noescape
func levels6AVX2(answers *uint64, questions *uint32, leaves *float32, sums *[blockRows]float32, count int)

//go:noescape
func levels8AVX2(answers *uint64, questions *uint32, leaves *float32, sums *[blockRows]float32, count int)

//go:noescape
func levels2AVX512Double(answers *uint64, questions *uint32, leaves *float64, sums *[blockRows]float64, count int)

//go:noescape
func levels4AVX512Double(answers *uint64, questions *uint32, leaves *float64, sums *[blockRows]float64, count int)

//go:noescape
func levels6AVX512Double(answers *uint64, questions *uint32, leaves *float64, sums *[blockRows]float64, count int)

//go:noescape
func levels8AVX512Double(answers *uint64, questions *uint32, leaves *float64, sums *[blockRows]float64, count int)

//go:noescape
func levels2AVX2Double(answers *uint64, questions *uint32, leaves *float64, sums *[blockRows]float64, count int)

//go:noescape
func levels4AVX2Double(answers *uint64, questions *uint32, leaves *float64, sums *[blockRows]float64, count int)

//go:noescape
func levels6AVX2Double(answers *uint64, questions *uint32, leaves *float64, sums *[blockRows]float64, count int)

//go:noescape
func levels8AVX2Double(answers *uint64, questions *uint32, leaves *float64, sums *[blockRows]float64, count int)
