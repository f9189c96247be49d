package sentences

/* want "a sentence has 26 words" */ // One two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen nineteen twenty
// one two three four five six. Then a short one.
func tooLong() {}

// One two three four five six seven eight nine ten. Eleven twelve thirteen fourteen fifteen:
//
//	a list or code is no sentence, however long it is, because it has no end that a reader has to look for
func short() {}
