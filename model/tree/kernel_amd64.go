package tree

import "golang.org/x/sys/cpu"

func vectorKernels() []kernel {
	var list []kernel
	if cpu.X86.HasAVX512F && cpu.X86.HasAVX512BW {
		k := kernel{name: "avx512", walk: walkEight}
		k.ask[0], k.ask[1] = askRightAVX512, askLeftAVX512
		k.trees[0], k.trees[1], k.trees[2], k.trees[3] = trees2AVX512, trees4AVX512, trees6AVX512, trees8AVX512
		list = append(list, k)
	}
	if cpu.X86.HasAVX2 {
		k := kernel{name: "avx2", walk: walkEight}
		k.ask[0], k.ask[1] = askRightAVX2, askLeftAVX2
		k.trees[0], k.trees[1], k.trees[2], k.trees[3] = trees2AVX2, trees4AVX2, trees6AVX2, trees8AVX2
		list = append(list, k)
	}
	return list
}

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
