package support

import "strings"

// complaint is a problem of a customer: how customers write about it, the screens that show it, and
// how they say it on the telephone, with words of calls.jsgf.
type complaint struct {
	query  string // search query for messages about it
	chats  []string
	screen []string // title and text of a window
	said   string
}

var complaints = []complaint{
	{"payment failed", []string{"My payment failed again, what is wrong?", "I tried to pay three times and every payment fails"},
		[]string{"Checkout", "Payment failed", "We could not complete your payment."}, "my payment failed"},
	{"credit card declined", []string{"Why is my credit card declined? It works everywhere else", "your shop says that my card was declined"},
		[]string{"Payment method", "Credit card declined", "Please use another credit card."}, "my credit card was declined"},
	{"charged twice", []string{"You charged me twice for one order!", "There are two charges for the same order on my bank statement"},
		[]string{"Bank statement", "Charged twice", "Two charges for one order."}, "i was charged twice"},
	{"parcel arrived broken", []string{"The parcel arrived broken, the box is crushed", "everything in my parcel is broken"},
		[]string{"Delivery report", "Parcel arrived broken", "The parcel was damaged on its way."}, "my parcel arrived broken"},
	{"parcel is late", []string{"Where is my parcel? It should have come on Monday", "my parcel is a week late"},
		[]string{"Track your parcel", "Your parcel is late", "The new delivery date is not known."}, "my parcel is late"},
	{"wrong delivery address", []string{"The delivery address of my order is wrong", "how do I correct the address that you deliver to?"},
		[]string{"Shipping", "Wrong delivery address", "The delivery address does not exist."}, "the delivery address is wrong"},
	{"cannot log in", []string{"I can't log in any more", "the login page does not take my password"},
		[]string{"Log in", "You can not log in", "The password is not right."}, "i can not log in"},
	{"account locked", []string{"Why is my account locked?", "My account has been locked since yesterday, please unlock it"},
		[]string{"My account", "Account locked", "Your account is locked for safety."}, "my account is locked"},
	{"application crashes", []string{"The app crashes whenever I open it", "your application crashes on my phone"},
		[]string{"System message", "Application crashed", "The application has stopped."}, "the application crashes"},
	{"discount code does not work", []string{"My discount code doesn't work", "the shop refuses the discount code from your newsletter"},
		[]string{"Shopping cart", "Discount code refused", "This discount code does not work."}, "the discount code does not work"},
	{"received the wrong color", []string{"I ordered blue and received the wrong color", "the color of the jacket is not the one I ordered"},
		[]string{"Return an item", "Wrong color received", "The color is not what was ordered."}, "i received the wrong color"},
	{"invoice is missing", []string{"There is no invoice in my account", "I need the invoice of my last order, it is missing"},
		[]string{"Documents", "Invoice missing", "There is no invoice for this order."}, "the invoice is missing"},
}

// perCustomer is the number of complaints of a customer. They are all different.
const perCustomer = 5

var talk = []string{
	"Hello, is anybody there?", "When do you open on Saturdays?", "Do you ship to Norway?", "Thanks, that solved it!", "Can I pick up my order myself?",
	"How large is a size M?", "Is the blue one back in stock soon?", "I would like to speak to a human", "What does express shipping cost?", "Have a nice weekend",
}

// Other sentences of calls. calls.jsgf contains them.
var (
	greetings = []string{"hello", "good morning", "this is a customer"}
	wishes    = []string{"i want a refund", "please call me back", "please cancel the order", "please send it again", "what can i do about it"}
	thanks    = []string{"thank you very much", "thanks for your help"}
	digits    = strings.Fields("zero one two three four five six seven eight nine")
)
